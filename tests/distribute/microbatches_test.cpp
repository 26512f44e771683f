// Micro-batches as many as memory asks for.
#include <gtest/gtest.h>

#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/data.h"
#include "tandem/distribute.h"
#include "tandem/function.h"
#include "tandem/gradient_tape.h"
#include "tandem/keras/layers.h"
#include "tandem/keras/losses.h"
#include "tandem/keras/model.h"
#include "tandem/ops.h"

namespace tandem::distribute {
namespace {

namespace layers = keras::layers;
using harness::throws;

constexpr int64_t kRows = 2048;

class MicrobatchesTest : public harness::FreshDevices {
 protected:
  static void use_memory(size_t limit, size_t cpus = 1) {
    devices::reset_devices();
    config::set_logical_cpus(
        std::vector<config::LogicalCpu>(cpus, {.threads = 1, .memory_limit = limit}));
  }

  /// Makes two steps on a batch of all rows.
  using Train = std::function<void(const Strategy&, const keras::Sequential&, const Tensor& x,
                                   const Tensor& y)>;

  static void compile(const keras::Sequential& model) {
    model.compile({.optimizer = keras::optimizers::Adam(0.01), .loss = "mse"});
  }

  static void train_on_arrays(const Strategy&, const keras::Sequential& model, const Tensor& x,
                              const Tensor& y) {
    compile(model);
    model.fit(x, y, {.batch_size = kRows, .epochs = 2, .verbose = keras::Verbose::silent});
  }

  static void train_on_a_data_set(const Strategy&, const keras::Sequential& model, const Tensor& x,
                                  const Tensor& y) {
    compile(model);
    model.fit(data::Dataset::from_tensor_slices(x, y).batch(kRows).prefetch(2),
              {.epochs = 2, .verbose = keras::Verbose::silent});
  }

  /// The batch is split before anybody knows into how many micro-batches.
  static void train_in_a_loop(const Strategy& strategy, const keras::Sequential& model,
                              const Tensor& x, const Tensor& y) {
    const keras::optimizers::Adam optimizer(0.01);
    const keras::losses::MeanSquaredError loss_of;
    const auto step = function([&](const Tensor& inputs, const Tensor& truths) {
      GradientTape tape;
      const Tensor loss = loss_of(truths, model(inputs, {.training = true}));
      const Variables weights = model.trainable_weights();
      optimizer.apply_gradients(tape.gradient(loss, weights), weights);
      return loss;
    });
    const auto batches =
        strategy.distribute_dataset(data::Dataset::from_tensor_slices(x, y).batch(kRows));
    for (int i = 0; i < 2; ++i) {
      for (const PerReplicas& batch : batches) {
        const PerReplica losses = strategy.run(step, batch);
        EXPECT_GT(strategy.reduce(ReduceOp::sum, losses).item<double>(), 0);
      }
    }
  }

  /// The weights after training.
  static std::vector<double> trained(const Strategy& strategy,
                                     const Train& train = train_on_arrays) {
    const auto scope = strategy.scope();
    random::set_seed(5);
    const keras::Sequential model;
    for (int i = 0; i < 8; ++i) model.add(layers::Dense(64, {.activation = "tanh"}));
    model.add(layers::Dense(1));
    const Tensor x = random_uniform({kRows, 4}, -1, 1, {.dtype = DType::float64, .seed = 1});
    train(strategy, model, x, reduce_sum(x, {.axes = std::vector<int>{1}, .keepdims = true}));
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
  for (const Train& train :
       {Train(train_on_arrays), Train(train_on_a_data_set), Train(train_in_a_loop)}) {
    use_memory(kLimit);
    const PipelineStrategy strategy = automatic();
    const std::vector<double> found = trained(strategy, train);
    EXPECT_GT(strategy.num_replicas_in_sync(), 1);
    EXPECT_LE(strategy.num_replicas_in_sync(), 32);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-9);
  }
}

TEST_F(MicrobatchesTest, ASingleRowThatIsTooMuchIsSaidToBe) {
  use_memory(1 << 20);
  const PipelineStrategy strategy = automatic();
  const auto f = function([](const Tensor& x) {
    return reduce_max(softmax(tile(x, {1, int64_t{1} << 18})));
  });
  EXPECT_TRUE(throws<ResourceExhausted>(
      [&] {
        strategy.run(f, strategy.split(ones({4, 1}, DType::float64)));
      },
      {"micro-batches are automatic", "single row", "/device:CPU:0"}));
}

TEST_F(MicrobatchesTest, WhereMemoryIsEnoughThereIsOne) {
  use_memory(size_t{1} << 30);
  const PipelineStrategy strategy = automatic();
  trained(strategy);
  EXPECT_EQ(strategy.num_replicas_in_sync(), 1);
}

TEST_F(MicrobatchesTest, StagesGetAsManyAsTheirDevicesNeed) {
  use_memory(0);
  const std::vector<double> expected = trained(OneDeviceStrategy("/CPU:0"));
  const LayoutMap none(DeviceMesh({2, 1}, {"stage", "model"}, {"/CPU:0", "/CPU:1"}));
  const std::vector<std::function<Strategy()>> strategies{
      [] { return PipelineStrategy({.stages = 2, .microbatches = PipelineOptions::automatic}); },
      [] {
        return PipelineStrategy({.stages = 2,
                                 .microbatches = PipelineOptions::automatic,
                                 .schedule = "interleaved",
                                 .chunks = 2});
      },
      [&] { return ModelParallel(none, {.microbatches = PipelineOptions::automatic}); }};
  for (const auto& make : strategies) {
    for (const auto& [limit, least, most] : {std::tuple{4 << 20, 3, 64}, {1 << 30, 2, 2}}) {
      use_memory(static_cast<size_t>(limit), 2);
      const Strategy strategy = make();
      const std::vector<double> found = trained(strategy);
      EXPECT_GE(strategy.num_replicas_in_sync(), least);
      EXPECT_LE(strategy.num_replicas_in_sync(), most);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-9);
    }
  }
}

/// Each pipeline has its part of the batch, in as many micro-batches as the others.
TEST_F(MicrobatchesTest, PipelinesSideBySideHaveAsManyEach) {
  use_memory(0);
  const std::vector<double> expected = trained(OneDeviceStrategy("/CPU:0"));
  use_memory(size_t{2} << 20, 4);
  const PipelineStrategy strategy(
      {.stages = 2, .microbatches = PipelineOptions::automatic, .replicas = 2});
  EXPECT_EQ(strategy.num_replicas_in_sync(), 4);
  const std::vector<double> found = trained(strategy);
  EXPECT_GT(strategy.num_replicas_in_sync(), 4);
  EXPECT_EQ(strategy.num_replicas_in_sync() % 2, 0);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-9);
}

/// The devices of a stage keep parts of its state, and each has rows of its own of a micro-batch.
TEST_F(MicrobatchesTest, ShardsTakeAsManyAsMemoryAsksFor) {
  use_memory(0);
  const std::vector<double> expected = trained(OneDeviceStrategy("/CPU:0"));
  for (const auto& [shape, limit] :
       {std::pair{std::vector{2, 2}, size_t{2} << 20}, {std::vector{4, 1}, size_t{3} << 20}}) {
    for (Shard shard : {Shard::state, Shard::gradients, Shard::variables}) {
      use_memory(limit, 4);
      const ModelParallel strategy(LayoutMap(DeviceMesh(shape, {"data", "stage"})),
                                   {.microbatches = PipelineOptions::automatic, .shard = shard});
      EXPECT_EQ(strategy.num_replicas_in_sync(), 4);
      const std::vector<double> found = trained(strategy);
      EXPECT_GT(strategy.num_replicas_in_sync(), 4);
      EXPECT_EQ(strategy.num_replicas_in_sync() % shape[0], 0);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-9);
    }
  }
}

/// All are under way at once there, so that more of them take no less.
TEST_F(MicrobatchesTest, AScheduleThatKeepsAllOfThemDoesNotFit) {
  use_memory(size_t{3} << 20, 2);
  const PipelineStrategy strategy(
      {.stages = 2, .microbatches = PipelineOptions::automatic, .schedule = "gpipe"});
  EXPECT_TRUE(throws<ResourceExhausted>([&] { trained(strategy); },
                                        {"micro-batches are automatic", "/device:CPU:1"}));
}

}  // namespace
}  // namespace tandem::distribute
