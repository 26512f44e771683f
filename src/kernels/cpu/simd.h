// Vector loops for the instruction set that is being compiled. Included anew for each of them,
// after hwy/highway.h; therefore the guard that toggles.
#if defined(TANDEM_KERNELS_CPU_SIMD_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_CPU_SIMD_H
#undef TANDEM_KERNELS_CPU_SIMD_H
#else
#define TANDEM_KERNELS_CPU_SIMD_H
#endif

#include <hwy/highway.h>

#include <cstdint>

// The functions of Texts, for files that include kernels/text.h.
namespace tandem::kernels::text {}

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

/// Highway's functions of vectors, and the same of Texts for who includes those.
namespace hn {
using namespace hwy::HWY_NAMESPACE;
using namespace text;
}  // namespace hn

template <class D>
HWY_INLINE int64_t lanes(D d) {
  return static_cast<int64_t>(hn::Lanes(d));
}

/// Fetches a line that is written soon: where other cores have it too, they give it up meanwhile.
template <class T>
HWY_INLINE void prefetch_to_write(T* p) {
#if HWY_ARCH_X86
  asm volatile("prefetchw %0" : : "m"(*p));
#else
  __builtin_prefetch(p, 1);
#endif
}

template <class T, size_t kWidth, class Step>
HWY_INLINE void for_vectors_up_to(int64_t i, int64_t count, const Step& step) {
  const hn::CappedTag<T, kWidth> d;
  for (; i + lanes(d) <= count; i += lanes(d)) step(d, i);
  if constexpr (kWidth > 1) {
    if (i < count) for_vectors_up_to<T, kWidth / 2>(i, count, step);
  }
}

/// Calls step(tag, i) for whole vectors from element i on, then for ever smaller ones, until
/// `count` elements are done. No element is touched twice, so a step may write what it reads.
template <class T, class Step>
HWY_INLINE void for_vectors(int64_t count, const Step& step) {
  constexpr size_t kWidest = HWY_MAX_BYTES / sizeof(T);
  for_vectors_up_to<T, kWidest>(0, count, step);
}

/// The first `count` elements at p, fewer than a vector, then `fill`. Reads nothing beyond them.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_first(D d, const T* p, int64_t count, T fill) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  const auto mask = hn::FirstN(d, static_cast<size_t>(count));
  return hn::IfThenElse(mask, hn::MaskedLoad(mask, d, p), hn::Set(d, fill));
#else
  HWY_ALIGN T buffer[HWY_MAX_BYTES / sizeof(T)];
  for (int64_t i = 0; i < lanes(d); ++i) buffer[i] = i < count ? p[i] : fill;
  return hn::Load(d, buffer);
#endif
}

/// Stores the first `count` lanes, fewer than a vector, and touches nothing beyond them.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void store_first(D d, hn::Vec<D> v, T* p, int64_t count) {
  HWY_ALIGN T buffer[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(v, d, buffer);
  for (int64_t i = 0; i < count; ++i) p[i] = buffer[i];
}

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
