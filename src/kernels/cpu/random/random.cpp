// Draws the random distributions. An element depends on its position in the sequence alone, not on
// which thread draws it or how the tensor is cut.
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "kernels/cpu/random/philox.h"
#include "kernels/cpu/random/random_source.h"
#include "kernels/part.h"
#include "op/registry.h"
#include "tandem/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/random/random.cpp"
#include <hwy/foreach_target.h>
// These come after foreach_target.h, which sets what they expand to.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "kernels/cpu/random/distributions_simd.h"
#include "kernels/cpu/random/philox_simd.h"
#include "kernels/cpu/simd.h"

#ifndef TANDEM_RANDOM_ONCE
#define TANDEM_RANDOM_ONCE
namespace tandem::kernels::cpu {
namespace {

/// Writes elements of a sequence from `position` on.
using DrawFn = void (*)(const DistributionParameters& parameters, const PhiloxSequence& sequence,
                        uint64_t position, int64_t count, void* out);

}  // namespace
}  // namespace tandem::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

/// Whole chunks are made where they belong. The first and the last, which may begin or end within a
/// block or a vector, are made aside, so that an element is always computed in the same way.
template <class Distribution>
void draw(const DistributionParameters& parameters, const PhiloxSequence& sequence,
          uint64_t position, int64_t count, void* to) {
  using T = typename Distribution::Element;
  constexpr int64_t kPerBlock = Distribution::kPerBlock;
  constexpr int64_t kChunkBlocks = 256;
  constexpr int64_t kChunk = kChunkBlocks * kPerBlock;
  HWY_ALIGN uint32_t words[4 * (kChunkBlocks + kBlocksBeyond)];
  HWY_ALIGN T aside[kPerBlock * (kChunkBlocks + kBlocksBeyond)];
  const Distribution distribution(parameters);
  T* out = static_cast<T*>(to);
  while (count > 0) {
    const uint64_t block = position / kPerBlock;
    const auto skip = static_cast<int64_t>(position % kPerBlock);
    const int64_t taken = std::min(count, kChunk - skip);
    make_blocks(sequence, block, (skip + taken + kPerBlock - 1) / kPerBlock, words);
    if (taken == kChunk) {
      distribution(words, kChunk, out);
    } else {
      distribution(words, skip + taken, aside);
      std::copy_n(aside + skip, taken, out);
    }
    out += taken;
    position += static_cast<uint64_t>(taken);
    count -= taken;
  }
}

template <template <class> class Distribution>
DrawFn floating(DType dtype) {
  return dtype == DType::float32 ? draw<Distribution<float>> : draw<Distribution<double>>;
}

DrawFn select(Distribution distribution, DType dtype) {
  switch (distribution) {
    case Distribution::normal:
      return floating<Normal>(dtype);
    case Distribution::truncated_normal:
      return floating<TruncatedNormal>(dtype);
    case Distribution::uniform:
      return floating<Uniform>(dtype);
    case Distribution::integers:
      return dtype == DType::int32 ? draw<Integers<int32_t>> : draw<Integers<int64_t>>;
    case Distribution::bernoulli:
      return draw<Bernoulli>;
  }
  return nullptr;
}

void all_blocks(const PhiloxSequence& sequence, uint64_t first, int64_t count, uint32_t* words) {
  constexpr int64_t kAtOnce = 64;
  HWY_ALIGN uint32_t aside[4 * (kAtOnce + kBlocksBeyond)];
  for (int64_t i = 0; i < count; i += kAtOnce) {
    const int64_t taken = std::min(kAtOnce, count - i);
    make_blocks(sequence, first + static_cast<uint64_t>(i), taken, aside);
    std::copy_n(aside, 4 * taken, words + 4 * i);
  }
}

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels::cpu {
namespace {

HWY_EXPORT(select);
HWY_EXPORT(all_blocks);

op::PrepareFn prepare(Distribution distribution) {
  return [distribution](const op::Signature& s, int) {
    const auto [dtype, shape] = s.outputs[0];
    return op::executable(
        [draw = HWY_DYNAMIC_DISPATCH(select)(distribution, dtype),
         parameters = DistributionParameters(distribution, s.attrs), source = RandomSource(s),
         positions = GlobalPositions(s, shape), split = RowSplit(shape),
         element = static_cast<int64_t>(size_of(dtype))](const op::Launch& launch) {
          const auto [begin, end] = split.part(launch);
          const PhiloxSequence sequence = source.sequence(launch);
          positions.for_each_run(
              launch, begin, end, [&](int64_t first, int64_t count, uint64_t position) {
                draw(parameters, sequence, position, count, launch.out<char>(0) + first * element);
              });
        });
  };
}

}  // namespace

void philox_blocks(const PhiloxSequence& sequence, uint64_t first, int64_t count, uint32_t* words) {
  HWY_DYNAMIC_DISPATCH(all_blocks)(sequence, first, count, words);
}

void register_random(op::BackendKernels& kernels) {
  const auto add = [&](const char* name, std::vector<DType> dtypes, Distribution distribution) {
    kernels.add(name, std::move(dtypes), prepare(distribution));
  };
  using enum DType;
  add("random_normal", {float32, float64}, Distribution::normal);
  add("random_truncated_normal", {float32, float64}, Distribution::truncated_normal);
  add("random_uniform", {float32, float64}, Distribution::uniform);
  add("random_integers", {int32, int64}, Distribution::integers);
  add("random_bernoulli", {boolean}, Distribution::bernoulli);
}

}  // namespace tandem::kernels::cpu
#endif
