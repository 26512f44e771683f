// Micro-batches as many as memory asks for.
#include <gtest/gtest.h>

#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/keras/layers.h"
#include "tandem/keras/model.h"
#include "tandem/ops.h"

namespace tandem::distribute {
namespace {

namespace layers = keras::layers;
using harness::throws;

constexpr int64_t kRows = 2048;

class MicrobatchesTest : public harness::FreshDevices {
 protected:
  static void use_memory(size_t limit) {
    devices::reset_devices();
    config::set_logical_cpus({{.threads = 1, .memory_limit = limit}});
  }

  /// Trains on whole batches of kRows and returns the weights.
  static std::vector<double> trained(const Strategy& strategy) {
    const auto scope = strategy.scope();
    random::set_seed(5);
    const keras::Sequential model;
    for (int i = 0; i < 8; ++i) model.add(layers::Dense(64, {.activation = "tanh"}));
    model.add(layers::Dense(1));
    model.compile({.optimizer = keras::optimizers::Adam(0.01), .loss = "mse"});
    const Tensor x = random_uniform({kRows, 4}, -1, 1, {.dtype = DType::float64, .seed = 1});
    model.fit(x, reduce_sum(x, {.axes = std::vector<int>{1}, .keepdims = true}),
              {.batch_size = kRows, .epochs = 2, .verbose = keras::Verbose::silent});
    std::vector<double> all;
    for (const Variable& weight : model.weights()) {
      const auto own = weight.value().to_vector<double>();
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

  static PipelineStrategy automatic() {
    return PipelineStrategy({.stages = 1, .microbatches = PipelineOptions::automatic});
  }
};

TEST_F(MicrobatchesTest, ABatchLargerThanMemoryTrainsAndEqualsTheWhole) {
  use_memory(0);
  const std::vector<double> expected = trained(OneDeviceStrategy("/CPU:0"));
  constexpr size_t kLimit = 5 << 20;  // The whole batch has as much of each two activations.
  use_memory(kLimit);
  EXPECT_TRUE(throws<ResourceExhausted>([] { trained(OneDeviceStrategy("/CPU:0")); },
                                        {"/device:CPU:0", "out of memory"}));
  use_memory(kLimit);
  const PipelineStrategy strategy = automatic();
  const std::vector<double> found = trained(strategy);
  EXPECT_GT(strategy.num_replicas_in_sync(), 1);
  EXPECT_LE(strategy.num_replicas_in_sync(), 32);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-9);
}

TEST_F(MicrobatchesTest, WhereMemoryIsEnoughThereIsOne) {
  use_memory(size_t{1} << 30);
  const PipelineStrategy strategy = automatic();
  trained(strategy);
  EXPECT_EQ(strategy.num_replicas_in_sync(), 1);
}

TEST_F(MicrobatchesTest, StagesNeedANumber) {
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  EXPECT_TRUE(throws<InvalidArgument>(
      [] { PipelineStrategy({.stages = 2, .microbatches = PipelineOptions::automatic}); },
      {"2 stages", "automatic"}));
}

}  // namespace
}  // namespace tandem::distribute
