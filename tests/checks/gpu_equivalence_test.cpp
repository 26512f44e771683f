/// The same result on GPUs as on one device: pairs of GPUs, a GPU beside the CPU, variables in one
/// place. The GPUs are OpenCL's, which compute with kernels of their own.
#include "checks/models.h"
#include "harness/fresh_devices.h"
#include "harness/opencl.h"
#include "tandem/keras/distribution.h"

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

TEST_F(GpuEquivalenceTest, StagesWithMemoriesOfTheirOwn) {
  const std::vector<std::vector<std::string>> pairs{{"/GPU:0", "/GPU:1"}, {"/CPU:0", "/GPU:0"}};
  for (const auto& devices : pairs) {
    const std::vector<Strategy> strategies{
        distribute::PipelineStrategy({.stages = 2, .microbatches = 4, .devices = devices}),
        distribute::PipelineStrategy(
            {.stages = 2, .microbatches = 3, .schedule = "gpipe", .devices = devices})};
    for (const TrainingCase& training : {models::mlp_on_two(devices[0], devices[1]),
                                         models::convnet_on_two(devices[0], devices[1]),
                                         models::tied_transformer_on_two(devices[0], devices[1])}) {
      const Equivalence result = check_equivalence(training, strategies);
      EXPECT_TRUE(result.same) << result.text;
    }
  }
}

/// Each of two pipelines has two GPUs, of which none shares memory with another. The scopes are
/// those of the first pipeline.
TEST_F(GpuEquivalenceTest, PipelinesSideBySideWithMemoriesOfTheirOwn) {
  restart();
  harness::use_opencl();
  constexpr size_t kMemory = 64 << 20;
  for (const config::PhysicalDevice& gpu : config::list_physical_devices("GPU")) {
    config::set_logical_device_configuration(
        gpu, {{.memory_limit = kMemory}, {.memory_limit = kMemory}});
  }
  const std::vector<Strategy> strategies{
      distribute::PipelineStrategy({.stages = 2, .microbatches = 3, .replicas = 2}),
      distribute::ModelParallel(
          distribute::LayoutMap(distribute::DeviceMesh({2, 2}, {"data", "stage"})))};
  for (const TrainingCase& training :
       {models::mlp_on_two("/GPU:0", "/GPU:1"), models::convnet_on_two("/GPU:0", "/GPU:1"),
        models::tied_transformer_on_two("/GPU:0", "/GPU:1")}) {
    const Equivalence result = check_equivalence(training, strategies);
    EXPECT_TRUE(result.same) << result.text;
  }
}

}  // namespace
}  // namespace tandem::checks
