// Batch normalisation in micro-batches: each is normalized by its own statistics, as a replica is,
// and the moving ones are those of the whole batch.
#include <gtest/gtest.h>

#include <cmath>

#include "harness/fresh_devices.h"
#include "tandem/distribute.h"
#include "tandem/keras/layers.h"
#include "tandem/keras/model.h"
#include "tandem/ops.h"

namespace tandem::distribute {
namespace {

namespace layers = keras::layers;

class PipelineNormalization : public harness::FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    config::set_logical_cpus({{.threads = 1}, {.threads = 1}, {.threads = 1}});
  }

  /// The losses of fit, and the weights after it, for batches whose micro-batches differ.
  static std::vector<double> trained(const Strategy& strategy) {
    random::set_seed(5);
    const auto scope = strategy.scope();
    keras::Sequential model(
        {layers::Dense(8, {.activation = "relu", .use_bias = false, .input_shape = {6}}),
         layers::BatchNormalization({.momentum = 0.7}), layers::Dense(3)});
    model.compile(
        {.optimizer = keras::optimizers::SGD(0.02), .loss = keras::losses::MeanSquaredError()});
    const Tensor x = reshape(sin(range(0, 22 * 6)) * 10.0 + 30.0, {22, 6});
    const Tensor y = slice(x, {0, 0}, {22, 3}) / 20.0;
    const auto history = model.fit(
        x, y, {.batch_size = 10, .epochs = 3, .verbose = keras::Verbose::silent, .shuffle = false});
    std::vector<double> found = history.history.at("loss");
    for (const Variable& weight : model.weights()) {
      for (float value : weight.value().to_vector<float>()) found.push_back(value);
    }
    return found;
  }

  static void expect_same(const std::vector<double>& found, const std::vector<double>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i], expected[i], 1e-4 * (1 + std::abs(expected[i]))) << i;
    }
  }
};

TEST_F(PipelineNormalization, MicroBatchesTrainAsSoManyReplicas) {
  const std::vector<double> replicas = trained(MirroredStrategy());
  const Strategy pipelines[] = {PipelineStrategy({.stages = 1, .microbatches = 3}),
                                PipelineStrategy({.stages = 2, .microbatches = 3})};
  for (const Strategy& pipeline : pipelines) {
    expect_same(trained(pipeline), replicas);
  }
}

/// The devices of a stage have a part of each micro-batch where there are shards.
TEST_F(PipelineNormalization, PartsOfMicroBatchesTrainAsSoManyReplicas) {
  restart();
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}, {.threads = 1}, {.threads = 1}});
  const std::vector<double> replicas = trained(MirroredStrategy());
  for (Shard shard : {Shard::state, Shard::gradients, Shard::variables}) {
    expect_same(trained(ModelParallel(LayoutMap(DeviceMesh({2, 2}, {"data", "stage"})),
                                      {.microbatches = 2, .shard = shard})),
                replicas);
  }
}

}  // namespace
}  // namespace tandem::distribute
