// Batch normalisation in micro-batches: each is normalized by its own statistics, as a replica is,
// and the moving ones are those of the whole batch.
#include <gtest/gtest.h>

#include <cmath>

#include "harness/fresh_devices.h"
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
    keras::Sequential model({layers::Dense(8, {.activation = "relu", .input_shape = {6}}),
                             layers::BatchNormalization({.momentum = 0.7}), layers::Dense(3)});
    model.compile(
        {.optimizer = keras::optimizers::Adam(0.02), .loss = keras::losses::MeanSquaredError()});
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
};

TEST_F(PipelineNormalization, MicroBatchesTrainAsSoManyReplicas) {
  const std::vector<double> replicas = trained(MirroredStrategy());
  const Strategy pipelines[] = {PipelineStrategy({.stages = 1, .microbatches = 3}),
                                PipelineStrategy({.stages = 2, .microbatches = 3})};
  for (const Strategy& pipeline : pipelines) {
    const std::vector<double> found = trained(pipeline);
    ASSERT_EQ(found.size(), replicas.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i], replicas[i], 1e-4 * (1 + std::abs(replicas[i]))) << i;
    }
  }
}

}  // namespace
}  // namespace tandem::distribute
