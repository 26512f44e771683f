/// The same result on doubles of CUDA devices as on one CPU: two of them and four, a GPU beside the
/// CPU, variables in one place. Kernels are what NVRTC compiles, products and convolutions are the
/// doubles' of cuBLAS and cuDNN.
#include "checks/models.h"
#include "harness/cuda.h"
#include "harness/fresh_devices.h"

namespace tandem::checks {
namespace {

using distribute::CentralStorageStrategy;
using distribute::MirroredStrategy;
using distribute::OneDeviceStrategy;
using distribute::Strategy;

class CudaEquivalenceTest : public harness::FreshDevices {
 protected:
  void SetUp() override {
    TANDEM_SKIP_WITHOUT_NVRTC();
    FreshDevices::SetUp();
    harness::cuda_double::set("devices", 4);
    complaints_ = harness::cuda_double::count("complaints");
    harness::use_cuda();
  }
  void TearDown() override {
    if (IsSkipped()) return;
    EXPECT_EQ(harness::cuda_double::count("complaints"), complaints_);
    FreshDevices::TearDown();
  }

  static void expect_same(const TrainingCase& training, const std::vector<Strategy>& others) {
    std::vector<Strategy> strategies{OneDeviceStrategy("/CPU:0")};
    strategies.insert(strategies.end(), others.begin(), others.end());
    const Equivalence result = check_equivalence(training, strategies);
    EXPECT_TRUE(result.same) << result.text;
  }

 private:
  long long complaints_ = 0;
};

TEST_F(CudaEquivalenceTest, MlpOnTwoAndFourBesideTheCpuAndWithCentralVariables) {
  expect_same(models::mlp(), {MirroredStrategy({"/GPU:0", "/GPU:1"}),
                              MirroredStrategy({"/GPU:0", "/GPU:1", "/GPU:2", "/GPU:3"}),
                              MirroredStrategy({"/GPU:0", "/CPU:0"}),
                              CentralStorageStrategy({"/GPU:0", "/GPU:1"})});
}
TEST_F(CudaEquivalenceTest, ConvnetWithBatchNormalizationAndDropout) {
  expect_same(models::convnet(), {MirroredStrategy({"/GPU:0", "/GPU:1"})});
}
TEST_F(CudaEquivalenceTest, Embedding) {
  expect_same(models::embedding(), {MirroredStrategy({"/GPU:0", "/GPU:1"})});
}

}  // namespace
}  // namespace tandem::checks
