/// The same result on GPUs as on one device: pairs of GPUs, a GPU beside the CPU, variables in one
/// place. The GPUs are OpenCL's, which compute with kernels of their own.
#include "checks/models.h"
#include "harness/fresh_devices.h"
#include "harness/opencl.h"

namespace tandem::checks {
namespace {

using distribute::CentralStorageStrategy;
using distribute::MirroredStrategy;
using distribute::OneDeviceStrategy;
using distribute::Strategy;

class GpuEquivalenceTest : public harness::FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    harness::use_opencl();
  }

  static void expect_same(const TrainingCase& training) {
    const std::vector<Strategy> strategies = {
        OneDeviceStrategy("/CPU:0"), MirroredStrategy({"/GPU:0", "/GPU:1"}),
        MirroredStrategy({"/GPU:0", "/CPU:0"}), CentralStorageStrategy({"/GPU:0", "/GPU:1"})};
    const Equivalence result = check_equivalence(training, strategies);
    EXPECT_TRUE(result.same) << result.text;
  }
};

TEST_F(GpuEquivalenceTest, Mlp) { expect_same(models::mlp()); }
TEST_F(GpuEquivalenceTest, ConvnetWithBatchNormalizationAndDropout) {
  expect_same(models::convnet());
}
TEST_F(GpuEquivalenceTest, Transformer) { expect_same(models::transformer()); }
TEST_F(GpuEquivalenceTest, Embedding) { expect_same(models::embedding()); }
TEST_F(GpuEquivalenceTest, TwoMaskedOutputsAndARegularizer) {
  expect_same(models::masked_outputs());
}

}  // namespace
}  // namespace tandem::checks
