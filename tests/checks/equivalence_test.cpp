/// The same result on any number of replicas: every kind of model, optimizer and strategy.
#include "checks/models.h"
#include "harness/fresh_devices.h"

namespace tandem::checks {
namespace {

using distribute::CentralStorageStrategy;
using distribute::MirroredStrategy;
using distribute::OneDeviceStrategy;
using distribute::Strategy;
using keras::CompileOptions;
namespace optimizers = keras::optimizers;

class EquivalenceTest : public harness::FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    config::set_logical_cpus({{.threads = 1}, {.threads = 1}, {.threads = 1}, {.threads = 1}});
  }

  static std::vector<std::string> cpus(int count) {
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) names.push_back("/CPU:" + std::to_string(i));
    return names;
  }

  static void expect_same(const TrainingCase& training, const std::vector<Strategy>& strategies) {
    const Equivalence result = check_equivalence(training, strategies);
    EXPECT_TRUE(result.same) << result.text;
  }

  static std::vector<Strategy> all_strategies() {
    return {OneDeviceStrategy("/CPU:1"),     MirroredStrategy(cpus(2)),
            MirroredStrategy(cpus(3)),       MirroredStrategy(cpus(4)),
            CentralStorageStrategy(cpus(2)), CentralStorageStrategy(cpus(3)),
            CentralStorageStrategy(cpus(4))};
  }
};

TEST_F(EquivalenceTest, Mlp) { expect_same(models::mlp(), all_strategies()); }
TEST_F(EquivalenceTest, ConvnetWithBatchNormalizationAndDropout) {
  expect_same(models::convnet(), all_strategies());
}
TEST_F(EquivalenceTest, Transformer) { expect_same(models::transformer(), all_strategies()); }
TEST_F(EquivalenceTest, Embedding) { expect_same(models::embedding(), all_strategies()); }
TEST_F(EquivalenceTest, TwoMaskedOutputsAndARegularizer) {
  expect_same(models::masked_outputs(), all_strategies());
}

TEST_F(EquivalenceTest, BatchesThatDivideAndThatDoNot) {
  for (int64_t batch : {60, 12, 7, 3, 1}) {
    TrainingCase training = models::mlp();
    training.batch_size = batch;
    training.epochs = 1;
    expect_same(training, {MirroredStrategy(cpus(3))});
  }
}

TEST_F(EquivalenceTest, EveryOptimizer) {
  using Make = std::function<optimizers::Optimizer()>;
  const std::vector<Make> all = {
      [] { return optimizers::SGD(0.1); },
      [] { return optimizers::SGD(0.1, {.momentum = 0.9}); },
      [] { return optimizers::SGD(0.1, {.momentum = 0.9, .nesterov = true}); },
      [] { return optimizers::RMSprop(0.01, {.momentum = 0.5, .centered = true}); },
      [] { return optimizers::Adagrad(0.1); },
      [] { return optimizers::Adam(0.01, {.amsgrad = true}); },
      [] { return optimizers::AdamW(0.01, {.weight_decay = 0.1}); },
      [] { return optimizers::SGD(0.1, {.clipnorm = 0.05}); },
      [] { return optimizers::Adam(0.01, {.global_clipnorm = 0.1}); },
      [] { return optimizers::SGD(0.1, {.clipvalue = 0.01}); },
      [] { return optimizers::Adam(0.01, {.gradient_accumulation_steps = 3}); },
      [] {
        return optimizers::SGD(0.1, {.global_clipnorm = 0.1, .gradient_accumulation_steps = 2});
      },
  };
  for (const Make& make : all) {
    TrainingCase training = models::mlp();
    training.batch_size = 16;
    training.compile = [&]() -> CompileOptions {
      return {.optimizer = make(), .loss = models::sparse_loss(), .metrics = {"accuracy"}};
    };
    expect_same(training, {MirroredStrategy(cpus(2)), MirroredStrategy(cpus(3)),
                           CentralStorageStrategy(cpus(3))});
  }
}

TEST_F(EquivalenceTest, SampleWeights) {
  TrainingCase training = models::mlp();
  training.sample_weight = models::numbers({70}, 12) + 1.0;
  expect_same(training, {MirroredStrategy(cpus(3)), CentralStorageStrategy(cpus(2))});
}

TEST_F(EquivalenceTest, StepsPerExecution) {
  TrainingCase training = models::mlp();
  training.batch_size = 8;
  training.compile = [] {
    CompileOptions options = models::classification();
    options.steps_per_execution = 3;
    return options;
  };
  expect_same(training, {MirroredStrategy(cpus(2)), MirroredStrategy(cpus(4))});
}

/// Replicas that do not share memory, alone and beside CPUs.
class SpreadEquivalenceTest : public EquivalenceTest {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    config::add_test_device();
    config::add_test_device();
    config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  }

  static std::vector<Strategy> cross_device_strategies() {
    return {MirroredStrategy(),  // All GPUs.
            MirroredStrategy({"/GPU:0", "/CPU:0"}),
            MirroredStrategy({"/GPU:0", "/GPU:1", "/CPU:0", "/CPU:1"},
                             {.reduction = distribute::CrossDeviceReduction::ranges}),
            MirroredStrategy({"/CPU:1", "/GPU:1", "/CPU:0"},
                             {.reduction = distribute::CrossDeviceReduction::one_device}),
            CentralStorageStrategy(),
            CentralStorageStrategy({"/GPU:0", "/CPU:0", "/CPU:1"}),
            OneDeviceStrategy("/GPU:1")};
  }

  /// One device is the CPU here too: without a strategy the first GPU would be chosen.
  static void expect_same_everywhere(const TrainingCase& training) {
    const auto cpu = device("/CPU:0");
    expect_same(training, cross_device_strategies());
  }
};

TEST_F(SpreadEquivalenceTest, Mlp) { expect_same_everywhere(models::mlp()); }
TEST_F(SpreadEquivalenceTest, ConvnetWithBatchNormalizationAndDropout) {
  expect_same_everywhere(models::convnet());
}
TEST_F(SpreadEquivalenceTest, Transformer) { expect_same_everywhere(models::transformer()); }
TEST_F(SpreadEquivalenceTest, Embedding) { expect_same_everywhere(models::embedding()); }
TEST_F(SpreadEquivalenceTest, TwoMaskedOutputsAndARegularizer) {
  expect_same_everywhere(models::masked_outputs());
}

TEST_F(SpreadEquivalenceTest, ClippingAccumulationAndSampleWeights) {
  TrainingCase training = models::mlp();
  training.batch_size = 3;  // Fewer rows than some have replicas.
  training.epochs = 1;
  training.sample_weight = models::numbers({70}, 12) + 1.0;
  training.compile = []() -> CompileOptions {
    return {.optimizer =
                optimizers::Adam(0.01, {.global_clipnorm = 0.1, .gradient_accumulation_steps = 2}),
            .loss = models::sparse_loss(),
            .metrics = {"accuracy"}};
  };
  expect_same_everywhere(training);
}

/// Statistics of each replica's own rows cannot equal one device's; that must be noticed.
TEST_F(EquivalenceTest, LocalBatchNormalizationIsToldFromTheSynchronizedOne) {
  TrainingCase training = models::convnet();
  training.model = [] {
    return keras::Sequential({keras::layers::Conv2D(4, 3), keras::layers::BatchNormalization(),
                              keras::layers::Flatten(), keras::layers::Dense(3)});
  };
  const Equivalence result = check_equivalence(training, {MirroredStrategy(cpus(2))});
  EXPECT_FALSE(result.same);
  EXPECT_NE(result.text.find("MirroredStrategy /device:CPU:0 /device:CPU:1: "), std::string::npos)
      << result.text;
}

TEST_F(EquivalenceTest, ReproducibleShardsGiveTheSameBitsOnAnyNumberOfDevices) {
  config::set_logical_cpus(std::vector<config::LogicalCpu>(8, {.threads = 1}));
  for (int64_t batch : {26, 13, 5}) {
    TrainingCase training = models::convnet();
    training.batch_size = batch;
    std::vector<std::vector<double>> weights;
    for (int devices : {1, 2, 4, 8}) {
      const MirroredStrategy strategy(cpus(devices), {.reproducible_shards = 8});
      EXPECT_EQ(strategy.num_replicas_in_sync(), 8);
      const auto scope = strategy.scope();
      random::set_seed(1);
      const keras::Model model = training.model();
      model.compile(training.compile());
      model.fit(cast(training.x[0], DType::float32), training.y[0],
                {.batch_size = batch, .epochs = 4, .verbose = keras::Verbose::silent});
      weights.emplace_back();
      for (const Tensor& weight : model.get_weights()) {
        const auto values = cast(weight, DType::float64).to_vector<double>();
        weights.back().insert(weights.back().end(), values.begin(), values.end());
      }
    }
    for (size_t i = 1; i < weights.size(); ++i) EXPECT_EQ(weights[i], weights[0]);
  }
}

}  // namespace
}  // namespace tandem::checks
