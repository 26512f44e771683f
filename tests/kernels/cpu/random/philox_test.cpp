#include "kernels/cpu/random/philox.h"

#include <gtest/gtest.h>

#include <vector>

namespace tandem::kernels::cpu {
namespace {

// From the file kat_vectors of the authors' library, Random123.
TEST(Philox, GivesThePublishedNumbers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

/// Many blocks at a time are the same as one after another, also where the index outgrows a word.
TEST(Philox, VectorsOfBlocksAreTheSameBlocks) {
  const PhiloxSequence sequence{{0xa4093822, 0x299f31d0}, {0x13198a2e, 0x03707344}};
  for (const uint64_t first : {uint64_t{0}, uint64_t{12345}, uint64_t{0xfffffff9},
                               uint64_t{0x85a308d3243f6a88}, ~uint64_t{0} - 5}) {
    for (const int64_t count : {1, 7, 64, 150}) {
      std::vector<uint32_t> words(static_cast<size_t>(4 * count) + 1, 42);
      philox_blocks(sequence, first, count, words.data());
      for (int64_t i = 0; i < count; ++i) {
        const PhiloxBlock wanted = sequence.block(first + static_cast<uint64_t>(i));
        const auto* got = words.data() + 4 * i;
        EXPECT_EQ((PhiloxBlock{got[0], got[1], got[2], got[3]}), wanted) << first << "+" << i;
      }
      EXPECT_EQ(words.back(), 42u);
    }
  }
}

}  // namespace
}  // namespace tandem::kernels::cpu
