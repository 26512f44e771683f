#include "checkpoint/crc32c.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/classifier.h"

namespace tandem::checkpoint {
namespace {

std::vector<uint8_t> some_bytes(size_t count) {
  std::vector<uint8_t> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(harness::hashed(5, i));
  return bytes;
}

TEST(Crc32c, GivesTheValuesOfTheStandard) {
  const std::string digits = "123456789";
  EXPECT_EQ(crc32c(digits.data(), digits.size()), 0xe3069283u);
  const std::vector<uint8_t> zeros(32, 0);
  EXPECT_EQ(crc32c(zeros.data(), zeros.size()), 0x8a9136aau);  // RFC 3720, B.4
  const std::vector<uint8_t> ones(32, 0xff);
  EXPECT_EQ(crc32c(ones.data(), ones.size()), 0x62a8ab43u);
  EXPECT_EQ(crc32c(nullptr, 0), 0u);
}

TEST(Crc32c, InstructionAndTableAgreeAtAnyLengthAndPlace) {
  const auto bytes = some_bytes(200'000);
  for (const size_t count : {0, 1, 7, 8, 9, 63, 1000, 24'575, 24'576, 24'577, 100'000, 199'000}) {
    for (const size_t begin : {0, 1, 5}) {
      EXPECT_EQ(extend_crc32c(17, bytes.data() + begin, count),
                extend_crc32c_by_table(17, bytes.data() + begin, count))
          << count << " from " << begin;
    }
  }
}

TEST(Crc32c, PartsCombineToTheWhole) {
  const auto bytes = some_bytes(70'000);
  const uint32_t whole = crc32c(bytes.data(), bytes.size());
  for (const size_t cut : {0, 1, 100, 65'536, 69'999, 70'000}) {
    const uint32_t first = crc32c(bytes.data(), cut);
    const size_t rest = bytes.size() - cut;
    EXPECT_EQ(extend_crc32c(first, bytes.data() + cut, rest), whole);
    EXPECT_EQ(combine_crc32c(first, crc32c(bytes.data() + cut, rest), rest), whole) << cut;
  }
}

}  // namespace
}  // namespace tandem::checkpoint
