// This file is compiled once per instruction set; the best one is chosen when a kernel is prepared.
#include "kernels/cpu/convolution/sparse_runs.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/convolution/sparse_runs.cpp"
#include <hwy/foreach_target.h>
// These come after foreach_target.h, which sets what they expand to.
#include <hwy/highway.h>

#include "kernels/cpu/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

/// A bit for each of at most 64 elements: whether it is not zero.
template <class T>
HWY_INLINE uint64_t bits_of(const T* x, int64_t count) {
  uint64_t bits = 0;
  for_vectors<T>(count, [&](auto d, int64_t i) HWY_ATTR {
    uint8_t bytes[8];
    hn::StoreMaskBits(d, hn::Ne(hn::LoadU(d, x + i), hn::Zero(d)), bytes);
    for (int64_t lane = 0; lane < lanes(d); lane += 8) {
      bits |= static_cast<uint64_t>(bytes[lane / 8]) << (i + lane);
    }
  });
  return bits;
}

/// One loop over the bits of many vectors ends more predictably than one for each.
template <class T>
int64_t find(const T* x, int64_t count, T* values, Place<T>* places) {
  int64_t found = 0;
  for (int64_t begin = 0; begin < count; begin += 64) {
    uint64_t left = bits_of(x + begin, count - begin < 64 ? count - begin : 64);
    for (; left != 0; left &= left - 1, ++found) {
      const int64_t at = begin + static_cast<int64_t>(hwy::Num0BitsBelowLS1Bit_Nonzero64(left));
      places[found] = static_cast<Place<T>>(at);
      values[found] = x[at];
    }
  }
  return found;
}

/// The part of `to` that fits into kVectors registers. Where that leaves registers free, every
/// other value has sums of its own: one sum after another would wait for itself.
template <int kVectors, class T, class D>
HWY_INLINE void add_block(D d, const T* values, const Place<T>* places, int64_t count,
                          const T* from, int64_t step, T* to) {
  using V = hn::Vec<D>;
  constexpr int kSets = kVectors <= 6 ? 2 : 1;
  const int64_t n = lanes(d);
  V sums[kSets][kVectors];
  for (int v = 0; v < kVectors; ++v) sums[0][v] = hn::LoadU(d, to + v * n);
  for (int v = 0; kSets > 1 && v < kVectors; ++v) sums[kSets - 1][v] = hn::Zero(d);
  const auto add_value = [&](int64_t e, V(&sum)[kVectors]) HWY_ATTR {
    const V value = hn::Set(d, values[e]);
    const T* run = from + step * places[e];
    for (int v = 0; v < kVectors; ++v) {
      sum[v] = hn::MulAdd(hn::LoadU(d, run + v * n), value, sum[v]);
    }
  };
  int64_t e = 0;
  for (; e + kSets <= count; e += kSets) {
    add_value(e, sums[0]);
    if constexpr (kSets > 1) add_value(e + 1, sums[1]);
  }
  if (e < count) add_value(e, sums[0]);
  for (int v = 0; kSets > 1 && v < kVectors; ++v) {
    sums[0][v] = hn::Add(sums[0][v], sums[kSets - 1][v]);
  }
  for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[0][v], d, to + v * n);
}

template <class T>
void add(const T* values, const Place<T>* places, int64_t count, const T* from, int64_t step, T* to,
         int64_t length) {
  const hn::CappedTag<T, HWY_MAX_BYTES / sizeof(T)> d;
  const int64_t n = lanes(d);
  int64_t i = 0;
  for (; i + 12 * n <= length; i += 12 * n) {
    add_block<12>(d, values, places, count, from + i, step, to + i);
  }
  for (; i + 6 * n <= length; i += 6 * n) {
    add_block<6>(d, values, places, count, from + i, step, to + i);
  }
  for (; i + 2 * n <= length; i += 2 * n) {
    add_block<2>(d, values, places, count, from + i, step, to + i);
  }
  for_vectors<T>(length - i, [&](auto narrow, int64_t at) HWY_ATTR {
    add_block<1>(narrow, values, places, count, from + i + at, step, to + i + at);
  });
}

SparseRuns<float> float32_runs() { return {find<float>, add<float>}; }
SparseRuns<double> float64_runs() { return {find<double>, add<double>}; }

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels::cpu {

HWY_EXPORT(float32_runs);
HWY_EXPORT(float64_runs);

template <>
SparseRuns<float> sparse_runs<float>() {
  return HWY_DYNAMIC_DISPATCH(float32_runs)();
}
template <>
SparseRuns<double> sparse_runs<double>() {
  return HWY_DYNAMIC_DISPATCH(float64_runs)();
}

}  // namespace tandem::kernels::cpu
#endif
