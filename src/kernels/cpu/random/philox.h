/// Random numbers as a function of a key and a counter: Philox4x32-10 of Salmon, Moraes, Dror and
/// Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). There is no state, so any thread
/// can begin anywhere.
#pragma once

#include <array>
#include <cstdint>

namespace tandem::kernels::cpu {

using PhiloxBlock = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

namespace philox_constants {
inline constexpr int kRounds = 10;
inline constexpr uint32_t kMultiplier0 = 0xD2511F53;
inline constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
inline constexpr uint32_t kWeyl0 = 0x9E3779B9;
inline constexpr uint32_t kWeyl1 = 0xBB67AE85;
}  // namespace philox_constants

inline PhiloxBlock philox(PhiloxBlock counter, PhiloxKey key) {
  using namespace philox_constants;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = uint64_t{kMultiplier0} * counter[0];
    const uint64_t product1 = uint64_t{kMultiplier1} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

/// A sequence of blocks: the first half of the counter is the block's index.
struct PhiloxSequence {
  PhiloxKey key;
  std::array<uint32_t, 2> upper;  ///< The second half.

  PhiloxBlock block(uint64_t index) const {
    return philox(
        {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), upper[0], upper[1]},
        key);
  }
};

/// Blocks [first, first + count) one after another, many at a time.
void philox_blocks(const PhiloxSequence& sequence, uint64_t first, int64_t count, uint32_t* words);

}  // namespace tandem::kernels::cpu
