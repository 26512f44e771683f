/// Prints the instruction sets that kernels would be compiled for and that this machine does not
/// need, as in `|HWY_SSE4|HWY_AVX2`: all but its best and the one that any machine has.
#include <hwy/targets.h>

#include <cstdio>

int main() {
  const int64_t compiled = HWY_TARGETS;
  const int64_t usable = hwy::SupportedTargets() & compiled;
  const int64_t best = usable & -usable;  // Highway's better sets have the lower bits.
  const int64_t unneeded = compiled & ~best & ~HWY_STATIC_TARGET;
  for (int bit = 62; bit >= 0; --bit) {
    const int64_t target = int64_t{1} << bit;
    if ((unneeded & target) != 0) std::printf("|HWY_%s", hwy::TargetName(target));
  }
}
