#include "kernels/cpu/cpu_kind.h"

#include <hwy/targets.h>

namespace tandem::kernels::cpu {

CpuKind this_cpu() {
  // The sets that kernels are compiled for.
  const int64_t sets = hwy::SupportedTargets() & HWY_TARGETS;
  if ((sets & HWY_AVX3) != 0) return CpuKind::avx512;
  return (sets & HWY_AVX2) != 0 ? CpuKind::avx2 : CpuKind::other;
}

}  // namespace tandem::kernels::cpu
