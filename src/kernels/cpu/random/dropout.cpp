// dropout draws which elements stay, scales them and writes down which they are; dropout_keep does
// the same to a gradient, by what was written down.
#include <algorithm>
#include <cstdint>

#include "kernels/cpu/random/random_source.h"
#include "kernels/part.h"
#include "op/registry.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/random/dropout.cpp"
#include <hwy/foreach_target.h>
// These come after foreach_target.h, which sets what they expand to.
#include <hwy/highway.h>

#include "kernels/cpu/random/philox_simd.h"

#ifndef TANDEM_DROPOUT_ONCE
#define TANDEM_DROPOUT_ONCE
namespace tandem::kernels::cpu {
namespace {

template <class T>
using DropFn = void (*)(const PhiloxSequence& sequence, uint64_t position, int64_t count,
                        uint32_t dropped_below, T scale, const T* x, T* out, uint8_t* keep);

template <class T>
using KeepFn = void (*)(const T* x, const uint8_t* keep, T scale, T* out, int64_t count);

}  // namespace
}  // namespace tandem::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

/// True where an element is dropped.
template <class D>
HWY_INLINE hn::Mask<D> dropped(D d, const uint32_t* words, uint32_t below) {
  const hn::Rebind<uint32_t, D> narrow;
  const hn::RebindToUnsigned<D> bits;
  const auto drawn = hn::LoadU(narrow, words);
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    return hn::RebindMask(d, hn::Lt(drawn, hn::Set(narrow, below)));
  } else {
    return hn::RebindMask(d, hn::Lt(hn::PromoteTo(bits, drawn), hn::Set(bits, uint64_t{below})));
  }
}

/// True where an element was kept.
template <class D>
HWY_INLINE hn::Mask<D> kept(D d, const uint8_t* keep) {
  const hn::Rebind<int32_t, D> words;
  const hn::RebindToSigned<D> bits;
  const auto loaded = hn::PromoteTo(words, hn::LoadU(hn::Rebind<uint8_t, D>(), keep));
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    return hn::RebindMask(d, hn::Ne(loaded, hn::Zero(words)));
  } else {
    return hn::RebindMask(d, hn::Ne(hn::PromoteTo(bits, loaded), hn::Zero(bits)));
  }
}

/// `out` may be `x`.
template <class T>
void keep_some(const T* x, const uint8_t* keep, T scale, T* out, int64_t count) {
  for_vectors<T>(count, [&](auto d, int64_t i) HWY_ATTR {
    const auto scaled = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, scale));
    hn::StoreU(hn::IfThenElseZero(kept(d, keep + i), scaled), d, out + i);
  });
}

/// One word decides on each element. `out` may be `x`.
template <class T>
void drop(const PhiloxSequence& sequence, uint64_t position, int64_t count, uint32_t dropped_below,
          T scale, const T* x, T* out, uint8_t* keep) {
  constexpr int64_t kChunkBlocks = 256;
  HWY_ALIGN uint32_t words[4 * (kChunkBlocks + kBlocksBeyond)];
  while (count > 0) {
    const auto skip = static_cast<int64_t>(position % 4);
    const int64_t taken = std::min(count, 4 * kChunkBlocks - skip);
    make_blocks(sequence, position / 4, (skip + taken + 3) / 4, words);
    const uint32_t* HWY_RESTRICT word = words + skip;
    for (int64_t i = 0; i < taken; ++i) keep[i] = word[i] >= dropped_below ? 1 : 0;
    for_vectors<T>(taken, [&](auto d, int64_t i) HWY_ATTR {
      const auto scaled = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, scale));
      hn::StoreU(hn::IfThenZeroElse(dropped(d, word + i, dropped_below), scaled), d, out + i);
    });
    position += static_cast<uint64_t>(taken);
    count -= taken;
    x += taken;
    out += taken;
    keep += taken;
  }
}

DropFn<float> drop_float32() { return drop<float>; }
DropFn<double> drop_float64() { return drop<double>; }
KeepFn<float> keep_float32() { return keep_some<float>; }
KeepFn<double> keep_float64() { return keep_some<double>; }

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels::cpu {
namespace {

HWY_EXPORT(drop_float32);
HWY_EXPORT(drop_float64);
HWY_EXPORT(keep_float32);
HWY_EXPORT(keep_float64);

DropFn<float> best_drop(float) { return HWY_DYNAMIC_DISPATCH(drop_float32)(); }
DropFn<double> best_drop(double) { return HWY_DYNAMIC_DISPATCH(drop_float64)(); }
KeepFn<float> best_keep(float) { return HWY_DYNAMIC_DISPATCH(keep_float32)(); }
KeepFn<double> best_keep(double) { return HWY_DYNAMIC_DISPATCH(keep_float64)(); }

template <class T>
op::ExecutablePtr prepare_dropout(const op::Signature& s, int) {
  const Shape& shape = s.outputs[0].shape;
  const double rate = s.attrs.get<double>("rate");
  return op::executable([drop = best_drop(T()), source = RandomSource(s),
                         positions = GlobalPositions(s, shape), split = RowSplit(shape),
                         dropped_below = static_cast<uint32_t>(rate * 0x1p32),
                         scale = static_cast<T>(1 / (1 - rate))](const op::Launch& launch) {
    const auto [begin, end] = split.part(launch);
    const PhiloxSequence sequence = source.sequence(launch);
    positions.for_each_run(
        launch, begin, end, [&](int64_t first, int64_t count, uint64_t position) {
          drop(sequence, position, count, dropped_below, scale, launch.in<T>(0) + first,
               launch.out<T>(0) + first, launch.out<uint8_t>(1) + first);
        });
  });
}

template <class T>
op::ExecutablePtr prepare_keep(const op::Signature& s, int) {
  return op::executable(
      [keep = best_keep(T()), split = RowSplit(s.outputs[0].shape),
       scale = static_cast<T>(1 / (1 - s.attrs.get<double>("rate")))](const op::Launch& launch) {
        const auto [begin, end] = split.part(launch);
        keep(launch.in<T>(0) + begin, launch.in<uint8_t>(1) + begin, scale,
             launch.out<T>(0) + begin, end - begin);
      });
}

}  // namespace

void register_dropout(op::BackendKernels& kernels) {
  kernels.add("dropout", {DType::float32}, prepare_dropout<float>);
  kernels.add("dropout", {DType::float64}, prepare_dropout<double>);
  kernels.add("dropout_keep", {DType::float32}, prepare_keep<float>);
  kernels.add("dropout_keep", {DType::float64}, prepare_keep<double>);
}

}  // namespace tandem::kernels::cpu
#endif
