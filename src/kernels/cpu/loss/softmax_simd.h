// What softmax and the losses built on it say in vectors. Included anew for each instruction set,
// after hwy/highway.h and hwy/contrib/math/math-inl.h; therefore the guard that toggles.
#if defined(TANDEM_KERNELS_CPU_SOFTMAX_SIMD_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_CPU_SOFTMAX_SIMD_H
#undef TANDEM_KERNELS_CPU_SOFTMAX_SIMD_H
#else
#define TANDEM_KERNELS_CPU_SOFTMAX_SIMD_H
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cstdint>
#include <limits>

#include "kernels/cpu/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

template <class D, class T>
HWY_INLINE T max_of(D d, const T* x, int64_t whole, int64_t count) {
  const T none = -std::numeric_limits<T>::infinity();
  const int64_t n = lanes(d);
  auto max = hn::Set(d, none);
  auto other = max;
  int64_t i = 0;
  for (; i + 2 * n <= whole; i += 2 * n) {
    max = hn::Max(max, hn::LoadU(d, x + i));
    other = hn::Max(other, hn::LoadU(d, x + i + n));
  }
  if (i < whole) max = hn::Max(max, hn::LoadU(d, x + i));
  if (whole < count) other = hn::Max(other, load_first(d, x + whole, count - whole, none));
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(max, other)));
}

/// Highway's exponential takes NaN to 0, which would hide it.
template <class D, class V>
HWY_INLINE V exp_of(D d, V x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, x));
}

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
