#include "kernels/cpu/cpu_kind.h"

#include <hwy/targets.h>

namespace tandem::kernels::cpu {

CpuKind this_cpu() {
  const int64_t sets = hwy::SupportedTargets() & HWY_TARGETS;  // That kernels are compiled for.
  if ((sets & HWY_AVX3) != 0) return CpuKind::avx512;
  return (sets & HWY_AVX2) != 0 ? CpuKind::avx2 : CpuKind::other;
}

}  // namespace tandem::kernels::cpu
