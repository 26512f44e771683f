#include "device/allocator.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem::devices {
namespace {

using harness::throws;

/// Memory that ends after so many bytes.
class SmallSpace final : public MemorySpace {
 public:
  explicit SmallSpace(size_t capacity) : capacity_(capacity) {}

  const std::string& name() const override { return name_; }
  bool host_readable() const override { return true; }
  void* allocate(size_t bytes) override {
    if (taken_ + bytes > capacity_) return nullptr;
    taken_ += bytes;
    return std::aligned_alloc(64, bytes);
  }
  void deallocate(void* data, size_t bytes) noexcept override {
    taken_ -= bytes;
    std::free(data);
  }

  size_t taken() const { return taken_; }

 private:
  const std::string name_ = "small";
  const size_t capacity_;
  size_t taken_ = 0;
};

class AllocatorTest : public testing::Test {
 protected:
  /// A block of so many floats.
  Allocator::Allocation* take(int64_t floats) {
    Allocator::Allocation* block =
        allocator_.allocate(static_cast<size_t>(floats) * 4, DType::float32, {floats});
    live_.push_back(block);
    return block;
  }
  void give_back(Allocator::Allocation* block) {
    allocator_.free(block);
    std::erase(live_, block);
  }
  void TearDown() override {
    for (Allocator::Allocation* block : live_) allocator_.free(block);
  }

  SmallSpace space_{1 << 20};
  Allocator allocator_{"/device:CPU:9", space_};

 private:
  std::vector<Allocator::Allocation*> live_;
};

TEST_F(AllocatorTest, BlocksAreLargeEnoughAlignedAndApart) {
  const Allocator::Allocation* first = take(100);
  const Allocator::Allocation* second = take(100);
  for (const auto* block : {first, second}) {
    EXPECT_GE(block->bytes, 400u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block->data) % 64, 0u);
  }
  EXPECT_NE(first->data, second->data);
}

TEST_F(AllocatorTest, NoBytesAreABlockToo) {
  EXPECT_NE(take(0)->data, nullptr);
  EXPECT_GT(allocator_.info().current, 0u);
}

TEST_F(AllocatorTest, AFreedBlockIsUsedAgain) {
  Allocator::Allocation* block = take(1000);
  const void* data = block->data;
  for (int i = 0; i < 10; ++i) {
    give_back(block);
    block = take(1000);
    EXPECT_EQ(block->data, data);
  }
  EXPECT_EQ(allocator_.info().space_allocations, 1u);
}

TEST_F(AllocatorTest, AFreedBlockFitsTheNextOfNearlyItsSize) {
  give_back(take(1000));
  take(1010);
  EXPECT_EQ(allocator_.info().space_allocations, 1u);
  take(5000);
  EXPECT_EQ(allocator_.info().space_allocations, 2u);
}

TEST_F(AllocatorTest, LiveBytesAndTheirPeakAreAccounted) {
  Allocator::Allocation* first = take(1024);
  Allocator::Allocation* second = take(2048);
  const size_t both = first->bytes + second->bytes;
  EXPECT_EQ(allocator_.info().current, both);
  EXPECT_EQ(allocator_.info().peak, both);
  const size_t rest = second->bytes;
  give_back(first);
  EXPECT_EQ(allocator_.info().current, rest);
  EXPECT_EQ(allocator_.info().peak, both);
  EXPECT_EQ(allocator_.info().reserved, both);
}

TEST_F(AllocatorTest, ThePeakStartsAgainFromWhatIsLive) {
  give_back(take(4096));
  take(16);
  allocator_.reset_peak();
  EXPECT_EQ(allocator_.info().peak, allocator_.info().current);
  take(32);
  EXPECT_EQ(allocator_.info().peak, allocator_.info().current);
}

TEST_F(AllocatorTest, PastTheLimitTheErrorNamesTheDeviceTheFiguresAndTheLargestTensors) {
  allocator_.set_limit(16 << 10);
  give_back(take(3072));  // The peak: 12288 bytes.
  take(16);
  take(2048);
  take(256);
  EXPECT_TRUE(throws<ResourceExhausted>(
      [&] { take(2000); },
      {"/device:CPU:9: out of memory", "8000 bytes requested", "9280 in use", "12288 at the peak",
       "limit 16384",
       "largest live tensors: float32[2048] 8192 bytes, float32[256] 1024 bytes, float32[16]"}));
  EXPECT_EQ(allocator_.info().current, 9280u);
}

TEST_F(AllocatorTest, TheErrorListsTheFiveLargest) {
  for (int64_t floats : {16, 32, 48, 64, 80, 96, 112}) take(floats);
  allocator_.set_limit(1);
  EXPECT_TRUE(throws<ResourceExhausted>(
      [&] { take(1); }, {"float32[112] 448 bytes, float32[96] 384 bytes, float32[80] 320 bytes, "
                         "float32[64] 256 bytes, float32[48] 192 bytes"}));
  EXPECT_FALSE(throws<ResourceExhausted>([&] { take(1); }, {"float32[32]"}));
}

TEST_F(AllocatorTest, TheLimitIsForLiveBytesNotForKeptOnes) {
  allocator_.set_limit(8 << 10);
  give_back(take(1024));
  EXPECT_NO_THROW(take(2048));
  allocator_.set_limit(0);
  EXPECT_NO_THROW(take(4096));
}

TEST_F(AllocatorTest, WhereTheSpaceIsFullKeptBlocksAreGivenBackFirst) {
  give_back(take(192 << 10));  // 768 KB of 1 MB.
  EXPECT_NO_THROW(take(128 << 10));
  EXPECT_EQ(space_.taken(), 512u << 10);
  EXPECT_EQ(allocator_.info().reserved, 512u << 10);
}

TEST_F(AllocatorTest, WhereTheSpaceIsFullForGoodTheErrorSaysThatThereIsNoLimit) {
  EXPECT_TRUE(throws<ResourceExhausted>(
      [&] { take(1 << 20); },
      {"/device:CPU:9", "4194304 bytes requested", "limit none", "largest live tensors: none"}));
}

TEST(Allocator, GivesEverythingBackToTheSpaceInTheEnd) {
  SmallSpace space(1 << 20);
  {
    Allocator allocator("/device:CPU:9", space);
    allocator.free(allocator.allocate(100, DType::uint8, {100}));
    EXPECT_GT(space.taken(), 0u);
  }
  EXPECT_EQ(space.taken(), 0u);
}

using DeviceMemoryTest = harness::FreshDevices;

TEST_F(DeviceMemoryTest, EagerStepsThatRepeatTakeNoNewMemory) {
  config::set_logical_cpus({{.threads = 1}});
  const Tensor x = fill({64, 64}, 1.0);
  const auto step = [&] { return reduce_sum(relu(matmul(x, x) + x)); };
  step();
  const Allocator& allocator = host_device()->allocator();
  const uint64_t before = allocator.info().space_allocations;
  for (int i = 0; i < 10; ++i) step();
  EXPECT_EQ(allocator.info().space_allocations, before);
}

TEST_F(DeviceMemoryTest, TensorsAreAccountedUntilTheLastHandleIsGone) {
  const Allocator& allocator = host_device()->allocator();
  const size_t before = allocator.info().current;
  Tensor x = fill({1000}, 1.0);
  const Tensor part = x.rows(10, 20);
  x = Tensor();
  EXPECT_GE(allocator.info().current, before + 4000);
}

TEST_F(DeviceMemoryTest, AnOpPastTheLimitNamesItsDeviceAndLeavesTheRestUsable) {
  config::set_logical_cpus({{.threads = 1}});
  const Tensor x = fill({100, 100}, 1.0);
  host_device()->allocator().set_limit(50'000);
  EXPECT_TRUE(throws<ResourceExhausted>(
      [&] { relu(x); }, {"/device:CPU:0", "40000 bytes requested", "float32[100,100]"}));
  EXPECT_EQ(reduce_sum(x).item<float>(), 10000.0f);
}

}  // namespace
}  // namespace tandem::devices
