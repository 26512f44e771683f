// Variables on a GPU: the dtypes that they may have there, and what is read and assigned.
#include <gtest/gtest.h>

#include "device/logical_device.h"
#include "harness/gpu_check.h"
#include "harness/opencl.h"
#include "tandem/tandem.h"

namespace tandem {
namespace {

class GpuAssign : public testing::Test {
 protected:
  void SetUp() override {
    devices::reset_devices();
    harness::use_opencl();
  }
  void TearDown() override { devices::reset_devices(); }
};

TEST_F(GpuAssign, VariablesOfFloatsAndInt64AreThere) {
  const DeviceScope scope = device("/device:GPU:0");
  for (const DType dtype :
       {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::int64}) {
    const Variable variable(harness::scattered(dtype, {257, 3}, 1));
    EXPECT_EQ(variable.value().device(), "/device:GPU:0") << name_of(dtype);
    const Tensor other = harness::scattered(dtype, {257, 3}, 2);
    variable.assign(other);
    harness::expect_same_bytes(harness::bytes_of(variable.value()), harness::bytes_of(other),
                               std::string(name_of(dtype)));
  }
}

TEST_F(GpuAssign, NumbersAreAddedAndSubtracted) {
  devices::reset_devices();
  harness::use_opencl(harness::KernelForm::parallel);
  const DeviceScope scope = device("/device:GPU:0");
  const Variable count(Tensor::from(std::vector<int64_t>{1, INT64_MAX}, {2}));
  count.assign_add(Tensor::from(std::vector<int64_t>{5, 1}, {2}));
  EXPECT_EQ(count.value().to_vector<int64_t>(), (std::vector<int64_t>{6, INT64_MIN}));
  const Variable weight(Tensor::from(std::vector<double>{1, 2}, {2}));
  weight.assign_sub(Tensor::from(std::vector<double>{0.5, 4}, {2}));
  EXPECT_EQ(weight.value().to_vector<double>(), (std::vector<double>{0.5, -2}));
}

TEST_F(GpuAssign, AReplicaKnowsItsNumber) {
  const distribute::MirroredStrategy strategy;
  const auto number = function(
      [](const Tensor&) { return distribute::get_replica_context()->replica_id_in_sync_group(); });
  const Tensor x = Tensor::from(std::vector<double>{1, 2}, {2});
  const auto result = strategy.run(number, strategy.split(x));
  std::vector<int32_t> numbers;
  for (const Tensor& own : strategy.local_results(result)) numbers.push_back(own.item<int32_t>());
  EXPECT_EQ(numbers, (std::vector<int32_t>{0, 1}));
}

/// Sizes of a batch are known when a plan is made, and written on the device.
TEST_F(GpuAssign, ATensorsSizesAreWritten) {
  const DeviceScope scope = device("/device:GPU:0");
  const auto sizes = function([](const Tensor& x) { return shape(x, DType::int64); });
  for (const int64_t rows : {3, 7, 4}) {
    const Tensor x = harness::scattered(DType::float32, {rows, 5, 2});
    EXPECT_EQ(sizes(x).to_vector<int64_t>(), (std::vector<int64_t>{rows, 5, 2}));
  }
}

}  // namespace
}  // namespace tandem
