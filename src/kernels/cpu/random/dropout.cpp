// dropout draws which elements stay, scales them and writes down which they are; dropout_keep does
// the same to a gradient, by what was written down.
#include <algorithm>
#include <cmath>
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

/// An element is dropped where these bits of its word are a number below that.
struct Threshold {
  uint32_t below;
  uint32_t bits = ~uint32_t{0};
};

template <class T>
using DropFn = void (*)(const PhiloxSequence& sequence, uint64_t position, int64_t count,
                        const Threshold& threshold, T scale, const T* x, T* out, uint8_t* keep);

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
HWY_INLINE hn::Mask<D> dropped(D d, const uint32_t* words, const Threshold& threshold) {
  const hn::Rebind<uint32_t, D> narrow;
  const hn::RebindToUnsigned<D> bits;
  const uint32_t below = threshold.below;
  const auto drawn = hn::And(hn::LoadU(narrow, words), hn::Set(narrow, threshold.bits));
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
void drop(const PhiloxSequence& sequence, uint64_t position, int64_t count,
          const Threshold& threshold, T scale, const T* x, T* out, uint8_t* keep) {
  constexpr int64_t kChunkBlocks = 256;
  HWY_ALIGN uint32_t words[4 * (kChunkBlocks + kBlocksBeyond)];
  while (count > 0) {
    const auto skip = static_cast<int64_t>(position % 4);
    const int64_t taken = std::min(count, 4 * kChunkBlocks - skip);
    make_blocks(sequence, position / 4, (skip + taken + 3) / 4, words);
    const uint32_t* HWY_RESTRICT word = words + skip;
    for (int64_t i = 0; i < taken; ++i) {
      keep[i] = (word[i] & threshold.bits) >= threshold.below ? 1 : 0;
    }
    for_vectors<T>(taken, [&](auto d, int64_t i) HWY_ATTR {
      const auto scaled = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, scale));
      hn::StoreU(hn::IfThenZeroElse(dropped(d, word + i, threshold), scaled), d, out + i);
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
                         threshold = Threshold{static_cast<uint32_t>(rate * 0x1p32)},
                         scale = static_cast<T>(1 / (1 - rate))](const op::Launch& launch) {
    const auto [begin, end] = split.part(launch);
    const PhiloxSequence sequence = source.sequence(launch);
    positions.for_each_run(
        launch, begin, end, [&](int64_t first, int64_t count, uint64_t position) {
          drop(sequence, position, count, threshold, scale, launch.in<T>(0) + first,
               launch.out<T>(0) + first, launch.out<uint8_t>(1) + first);
        });
  });
}

/// The sequence of a seed, as TensorFlow's stateless ops have it: key and upper half are a block
/// that the seed is the counter of.
PhiloxSequence stateless_sequence(const int64_t* seed) {
  const auto low = [&](int i) { return static_cast<uint32_t>(static_cast<uint64_t>(seed[i])); };
  const auto high = [&](int i) {
    return static_cast<uint32_t>(static_cast<uint64_t>(seed[i]) >> 32);
  };
  const PhiloxBlock mixed = philox({low(0), high(0), low(1), high(1)}, {0x3EC8F720u, 0x02461E29u});
  return {{mixed[0], mixed[1]}, {mixed[2], mixed[3]}};
}

/// TensorFlow compares numbers of 23 bits with the rate as a float32.
Threshold stateless_threshold(double rate) {
  return {static_cast<uint32_t>(std::ceil(double{static_cast<float>(rate)} * 0x1p23)), 0x7FFFFFu};
}

template <class T>
op::ExecutablePtr prepare_stateless(const op::Signature& s, int) {
  const Shape& shape = s.outputs[0].shape;
  const double rate = s.attrs.get<double>("rate");
  return op::executable([drop = best_drop(T()), positions = GlobalPositions(s, shape),
                         split = RowSplit(shape), threshold = stateless_threshold(rate),
                         scale = static_cast<T>(1 / (1 - rate))](const op::Launch& launch) {
    const auto [begin, end] = split.part(launch);
    const PhiloxSequence sequence = stateless_sequence(launch.in<int64_t>(1));
    positions.for_each_run(
        launch, begin, end, [&](int64_t first, int64_t count, uint64_t position) {
          drop(sequence, position, count, threshold, scale, launch.in<T>(0) + first,
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
  kernels.add("stateless_dropout", {DType::float32}, prepare_stateless<float>);
  kernels.add("stateless_dropout", {DType::float64}, prepare_stateless<double>);
  kernels.add("dropout_keep", {DType::float32}, prepare_keep<float>);
  kernels.add("dropout_keep", {DType::float64}, prepare_keep<double>);
}

}  // namespace tandem::kernels::cpu
#endif
