// Many Philox blocks at a time, for the instruction set that is being compiled. Included anew for
// each of them, after hwy/highway.h; therefore the guard that toggles.
#if defined(TANDEM_KERNELS_CPU_PHILOX_SIMD_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_CPU_PHILOX_SIMD_H
#undef TANDEM_KERNELS_CPU_PHILOX_SIMD_H
#else
#define TANDEM_KERNELS_CPU_PHILOX_SIMD_H
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "kernels/cpu/random/philox.h"
#include "kernels/cpu/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

/// The most blocks that are made beyond the number asked for.
inline constexpr int64_t kBlocksBeyond = 2 * (HWY_MAX_BYTES / sizeof(uint32_t));

#if HWY_TARGET == HWY_SCALAR

HWY_INLINE void make_blocks(const PhiloxSequence& sequence, uint64_t first, int64_t count,
                            uint32_t* HWY_RESTRICT words) {
  for (int64_t i = 0; i < count; ++i) {
    const PhiloxBlock block = sequence.block(first + static_cast<uint64_t>(i));
    std::copy(block.begin(), block.end(), words + 4 * i);
  }
}

#else

using Words = hn::ScalableTag<uint32_t>;
using WordVec = hn::Vec<Words>;

/// Holds as many blocks as a vector has lanes; vector i holds word i of each.
struct BlockVecs {
  WordVec w0, w1, w2, w3;
};

struct WideProduct {
  WordVec high, low;
};

HWY_INLINE WideProduct multiply(Words d, WordVec a, WordVec b) {
  const hn::Repartition<uint64_t, Words> wide;
  const auto even = hn::MulEven(a, b);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, a))), b);
  return {hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even))),
          hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even))};
}

HWY_INLINE void one_round(Words d, BlockVecs& b, WordVec key0, WordVec key1) {
  using namespace philox_constants;
  const auto [high0, low0] = multiply(d, b.w0, hn::Set(d, kMultiplier0));
  const auto [high1, low1] = multiply(d, b.w2, hn::Set(d, kMultiplier1));
  b = {hn::Xor(hn::Xor(high1, b.w1), key0), low1, hn::Xor(hn::Xor(high0, b.w3), key1), low0};
}

HWY_INLINE BlockVecs counters(Words d, const PhiloxSequence& sequence, uint64_t first) {
  const auto low = hn::Set(d, static_cast<uint32_t>(first));
  const auto index = hn::Add(low, hn::Iota(d, 0));
  const auto high = hn::Set(d, static_cast<uint32_t>(first >> 32));
  const auto carry = hn::IfThenElseZero(hn::Lt(index, low), hn::Set(d, uint32_t{1}));
  return {index, hn::Add(high, carry), hn::Set(d, sequence.upper[0]),
          hn::Set(d, sequence.upper[1])};
}

/// Blocks [first, first + count), and up to kBlocksBeyond after them, one after another at `words`.
HWY_INLINE void make_blocks(const PhiloxSequence& sequence, uint64_t first, int64_t count,
                            uint32_t* HWY_RESTRICT words) {
  using namespace philox_constants;
  const Words d;
  const int64_t lanes_here = lanes(d);
  for (int64_t done = 0; done < count; done += 2 * lanes_here) {
    const uint64_t index = first + static_cast<uint64_t>(done);
    // Two vectors: the rounds of one fill the waits of the other.
    BlockVecs a = counters(d, sequence, index);
    BlockVecs b = counters(d, sequence, index + static_cast<uint64_t>(lanes_here));
    uint32_t key0 = sequence.key[0];
    uint32_t key1 = sequence.key[1];
    for (int round = 0; round < kRounds; ++round) {
      one_round(d, a, hn::Set(d, key0), hn::Set(d, key1));
      one_round(d, b, hn::Set(d, key0), hn::Set(d, key1));
      key0 += kWeyl0;
      key1 += kWeyl1;
    }
    hn::StoreInterleaved4(a.w0, a.w1, a.w2, a.w3, d, words + 4 * done);
    hn::StoreInterleaved4(b.w0, b.w1, b.w2, b.w3, d, words + 4 * (done + lanes_here));
  }
}

#endif

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
