/// What the narrow and the packed product say in vectors. Compiled once per instruction set, within
/// Highway's foreach_target.h, as are the headers that include it.
#if defined(TANDEM_KERNELS_CPU_GEMM_SIMD_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_CPU_GEMM_SIMD_H
#undef TANDEM_KERNELS_CPU_GEMM_SIMD_H
#else
#define TANDEM_KERNELS_CPU_GEMM_SIMD_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

// An array of vectors lives in registers only if every loop over it is unrolled, at any
// optimisation level.
#undef TANDEM_UNROLL
#define TANDEM_UNROLL _Pragma("GCC unroll 16")

/// Keeps a loaded vector in its register. GCC would fold the load into each product that uses the
/// vector, and a core does only as many loads per cycle as products.
template <class V>
HWY_INLINE V in_register(V v) {
#if HWY_ARCH_X86 && HWY_COMPILER_GCC_ACTUAL && HWY_TARGET != HWY_SCALAR
  asm("" : "+v"(v.raw));
#endif
  return v;
}

// The scalar target has no shuffles; it does with the rows of gemm_narrow_rows.h.
#if HWY_TARGET != HWY_SCALAR

template <class T>
using D = hn::ScalableTag<T>;
template <class T>
using V = hn::Vec<D<T>>;
template <class T>
inline constexpr int kLanes = hn::MaxLanes(D<T>());

// Vectors are shuffled within blocks of 128 bits.
template <class T>
inline constexpr int kBlock = 16 / sizeof(T);

/// Each block is a square of its own: v[i] lane j becomes v[j] lane i.
template <class Tag>
HWY_INLINE void transpose_blocks(Tag d, hn::Vec<Tag> (&v)[4]) {
  const hn::Repartition<double, Tag> pairs;
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, v[0], v[1]));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, v[2], v[3]));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, v[0], v[1]));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, v[2], v[3]));
  v[0] = hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23));
  v[1] = hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23));
  v[2] = hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23));
  v[3] = hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23));
}

template <class Tag>
HWY_INLINE void transpose_blocks(Tag d, hn::Vec<Tag> (&v)[2]) {
  const auto low = hn::InterleaveLower(d, v[0], v[1]);
  v[1] = hn::InterleaveUpper(d, v[0], v[1]);
  v[0] = low;
}

/// One vector from blocks that lie `stride` elements apart.
template <class Tag, class T>
HWY_INLINE hn::Vec<Tag> load_blocks(Tag d, const T* from, int64_t stride) {
  constexpr int kBlocks = hn::MaxLanes(Tag()) / kBlock<T>;
  if constexpr (kBlocks == 1) {
    return hn::LoadU(d, from);
  } else {
    const hn::Half<Tag> half;
    return hn::Combine(d, load_blocks(half, from + kBlocks / 2 * stride, stride),
                       load_blocks(half, from, stride));
  }
}

template <class Tag, class T>
HWY_INLINE void store_blocks(Tag d, hn::Vec<Tag> v, T* to, int64_t stride) {
  constexpr int kBlocks = hn::MaxLanes(Tag()) / kBlock<T>;
  if constexpr (kBlocks == 1) {
    hn::StoreU(v, d, to);
  } else {
    const hn::Half<Tag> half;
    store_blocks(half, hn::LowerHalf(half, v), to, stride);
    store_blocks(half, hn::UpperHalf(half, v), to + kBlocks / 2 * stride, stride);
  }
}

template <class Tag>
HWY_INLINE auto add_blocks(Tag, hn::Vec<Tag> v) {
  if constexpr (hn::MaxLanes(Tag()) == kBlock<hn::TFromD<Tag>>) {
    return v;
  } else {
    const hn::Half<Tag> half;
    return add_blocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}

/// Lane j of the result is the sum of the lanes of v[j].
template <class T>
HWY_INLINE auto sums_of(V<T> (&v)[kBlock<T>]) {
  transpose_blocks(D<T>(), v);
  V<T> sum = v[0];
  TANDEM_UNROLL
  for (int i = 1; i < kBlock<T>; ++i) sum = hn::Add(sum, v[i]);
  return add_blocks(D<T>(), sum);
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
