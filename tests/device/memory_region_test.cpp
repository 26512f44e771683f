#include "device/memory_region.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>

namespace tandem::devices {
namespace {

class MemoryRegionTest : public testing::Test {
 protected:
  char* take(size_t bytes) { return static_cast<char*>(region_->take(bytes)); }

  const std::unique_ptr<MemoryRegion> region_ = MemoryRegion::of(host_memory(), 1024);
};

TEST_F(MemoryRegionTest, PartsAreApartAndEndWithTheRegion) {
  char* first = take(512);
  char* second = take(448);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(second, first + 512);
  EXPECT_EQ(take(128), nullptr);
  EXPECT_EQ(take(64), second + 448);
  EXPECT_EQ(take(64), nullptr);
}

TEST_F(MemoryRegionTest, FreeNeighboursJoinInWhateverOrderTheyAreFreed) {
  for (const auto& order : {std::array{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}, {2, 0, 3, 1}}) {
    std::array<char*, 4> parts{};
    for (char*& part : parts) part = take(256);
    for (int i : order) region_->give_back(parts[static_cast<size_t>(i)], 256);
    char* all = take(1024);
    ASSERT_NE(all, nullptr);
    region_->give_back(all, 1024);
  }
}

TEST_F(MemoryRegionTest, TheSmallestPartThatHoldsItIsTaken) {
  char* large = take(512);
  take(64);
  char* small = take(128);
  take(320);
  region_->give_back(large, 512);
  region_->give_back(small, 128);
  EXPECT_EQ(take(128), small);
  EXPECT_EQ(take(128), large);
}

}  // namespace
}  // namespace tandem::devices
