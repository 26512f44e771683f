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

/// Layers and their weights on two devices, by the scopes that they are described in.
TrainingCase on_two(const std::string& first, const std::string& second) {
  TrainingCase training = models::mlp();
  training.model = [=]() -> keras::Model {
    const auto x = keras::Input({5}, DType::float64);
    const auto hidden = [&] {
      const auto scope = device(first);
      return models::layers::Dense(8, {.activation = "tanh"})(x);
    }();
    const auto scope = device(second);
    return {{x}, {models::layers::Dense(3)(models::layers::Dense(6)(hidden))}};
  };
  training.compile = [] {
    keras::CompileOptions options = models::classification();
    options.optimizer = keras::optimizers::Adam(0.01, {.global_clipnorm = 0.1});
    return options;
  };
  return training;
}

TEST_F(GpuEquivalenceTest, StagesWithMemoriesOfTheirOwn) {
  const std::vector<std::vector<std::string>> pairs{{"/GPU:0", "/GPU:1"}, {"/CPU:0", "/GPU:0"}};
  for (const auto& devices : pairs) {
    const Equivalence result = check_equivalence(
        on_two(devices[0], devices[1]),
        {distribute::PipelineStrategy({.stages = 2, .microbatches = 4, .devices = devices}),
         distribute::PipelineStrategy(
             {.stages = 2, .microbatches = 3, .schedule = "gpipe", .devices = devices})});
    EXPECT_TRUE(result.same) << result.text;
  }
}

}  // namespace
}  // namespace tandem::checks
