#include "data/batch_memory.h"

#include "data/elements.h"
#include "harness/fresh_devices.h"

namespace tandem::data {
namespace {

class BatchMemoryTest : public harness::FreshDevices {};

TEST_F(BatchMemoryTest, BatchesInOrderAreViews) {
  const Tensor x = counting(10);
  auto iterator = Dataset::from_tensor_slices(x).batch(4).prefetch(2).iterator();
  const auto& allocator = devices::host_device()->allocator();
  const auto before = allocator.info().current;
  const auto a = iterator.next();
  const auto b = iterator.next();
  EXPECT_EQ((*b)[0].to_vector<int64_t>(), (Numbers{4, 5, 6, 7}));
  EXPECT_EQ(allocator.info().current, before);
}

TEST_F(BatchMemoryTest, GatheredRowsOfAnyDtypeAreThoseOfTheArray) {
  constexpr int64_t kRows = 40;
  const Tensor numbers = reshape(counting(kRows * 6), {kRows, 2, 3});
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64,
                            DType::uint8, DType::int32, DType::int64, DType::boolean}) {
    const Tensor x = cast(numbers, dtype);
    const auto dataset = Dataset::from_tensor_slices(x, counting(kRows)).shuffle(kRows).batch(7);
    for (const auto& [batch, places] : dataset.as<std::pair<Tensor, Tensor>>()) {
      EXPECT_EQ(batch.dtype(), dtype);
      EXPECT_EQ(cast(batch, DType::float64).to_vector<double>(),
                cast(gather(x, places), DType::float64).to_vector<double>())
          << name_of(dtype);
    }
  }
}

TEST_F(BatchMemoryTest, ABufferMayBeLargerThanAnyMemory) {
  const auto some = Dataset::range(9).filter([](const Tensor& x) { return x.item<int64_t>() > 3; });
  EXPECT_EQ(numbers_of(some.shuffle(int64_t{1} << 60)).size(), 5u);
  EXPECT_EQ(numbers_of(Dataset::range(9).shuffle(int64_t{1} << 60)).size(), 9u);
}

TEST_F(BatchMemoryTest, BatchesThatNobodyHoldsAreUsedAgain) {
  const auto shuffled = Dataset::from_tensor_slices(zeros({4096, 64})).shuffle(4096).batch(64);
  const auto& allocator = devices::host_device()->allocator();
  auto iterator = shuffled.iterator();
  iterator.next();
  const auto before = allocator.info().current;
  for (int i = 0; i < 60; ++i) {
    iterator.next();
    EXPECT_EQ(allocator.info().current, before);
  }
}

TEST_F(BatchMemoryTest, BatchesThatAreHeldStayAsTheyAre) {
  const auto shuffled =
      Dataset::from_tensor_slices(counting(100)).shuffle(100, {.seed = 1}).batch(3);
  std::vector<Element> held;
  for (const Element& batch : shuffled) held.push_back(batch);
  Numbers numbers;
  for (const Element& batch : held) {
    for (const int64_t number : batch[0].to_vector<int64_t>()) numbers.push_back(number);
  }
  EXPECT_EQ(numbers, numbers_of(shuffled, 0));
}

TEST_F(BatchMemoryTest, TensorsOfOtherDevicesComeToTheHost) {
  config::add_test_device();
  Tensor x;
  {
    const auto scope = device("/GPU:0");
    x = fill({4, 2}, 3.0) + fill({4, 2}, 1.0);
  }
  ASSERT_EQ(x.device(), "/device:GPU:0");
  const auto batch =
      Dataset::from_tensor_slices(x).shuffle(4, {.seed = 1}).batch(3).iterator().next();
  EXPECT_EQ((*batch)[0].device(), "/device:CPU:0");
  EXPECT_EQ((*batch)[0].to_vector<float>(), std::vector<float>(6, 4.0f));
}

}  // namespace
}  // namespace tandem::data
