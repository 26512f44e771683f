/// The result of one device where replicas keep parts of slots, of gradients, of variables: on
/// logical CPUs, and on GPUs, which are OpenCL's and have memories of their own.
#include "checks/models.h"
#include "harness/fresh_devices.h"
#include "harness/opencl.h"

namespace tandem::checks {
namespace {

namespace optimizers = keras::optimizers;
using distribute::MirroredStrategy;
using distribute::Shard;
using distribute::Strategy;

class ShardEquivalenceTest : public harness::FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    config::set_logical_cpus({{.threads = 2}, {.threads = 1}, {.threads = 1}, {.threads = 1}});
  }

  static void expect_same(const TrainingCase& training) {
    const std::vector<std::string> two{"/CPU:0", "/CPU:1"}, three{"/CPU:0", "/CPU:1", "/CPU:2"};
    const Equivalence result =
        check_equivalence(training, {MirroredStrategy(two, {.shard = Shard::state}),
                                     MirroredStrategy(three, {.shard = Shard::gradients}),
                                     MirroredStrategy(two, {.shard = Shard::variables}),
                                     MirroredStrategy({}, {.shard = Shard::variables})});
    EXPECT_TRUE(result.same) << result.text;
  }
};

TEST_F(ShardEquivalenceTest, OnGpus) {
  restart();
  harness::use_opencl();
  const std::vector<std::string> gpus{"/GPU:0", "/GPU:1"};
  for (const TrainingCase& training : {models::mlp(), models::embedding()}) {
    const Equivalence result = check_equivalence(
        training, {MirroredStrategy(gpus, {.shard = Shard::state}),
                   MirroredStrategy(gpus, {.shard = Shard::gradients}),
                   MirroredStrategy(gpus, {.shard = Shard::variables}),
                   MirroredStrategy({"/GPU:0", "/CPU:0"}, {.shard = Shard::variables})});
    EXPECT_TRUE(result.same) << result.text;
  }
}

/// Devices with queues, two and four of them, whose joins come one layer ahead: with values that
/// are computed again, sums that wait, moving statistics, and random numbers.
TEST_F(ShardEquivalenceTest, OnDevicesThatJoinAhead) {
  restart();
  config::set_logical_cpus({{.threads = 2}});
  for (int gpu = 0; gpu < 4; ++gpu) config::add_test_device();
  TrainingCase again = models::mlp();
  again.model = [] {
    keras::Sequential model;
    for (int i = 0; i < 3; ++i) {
      model.add(keras::layers::Recompute(
          keras::Sequential({keras::layers::Dense(32, {.activation = "gelu"}),
                             keras::layers::Dropout(0.2), keras::layers::Dense(24)})));
    }
    model.add(keras::layers::Dense(3));
    return model;
  };
  TrainingCase waiting = again;
  waiting.compile = [] {
    keras::CompileOptions options = models::classification();
    options.optimizer = optimizers::SGD(
        0.1, {.momentum = 0.9, .global_clipnorm = 0.1, .gradient_accumulation_steps = 2});
    return options;
  };
  for (const TrainingCase& training :
       {again, waiting, models::transformer(), models::convnet(), models::embedding()}) {
    const Equivalence result = check_equivalence(
        training,
        {MirroredStrategy({"/GPU:0", "/GPU:1"}, {.shard = Shard::variables}),
         MirroredStrategy({"/GPU:0", "/GPU:1", "/GPU:2", "/GPU:3"}, {.shard = Shard::variables})});
    EXPECT_TRUE(result.same) << result.text;
  }
}

TEST_F(ShardEquivalenceTest, Mlp) { expect_same(models::mlp()); }
TEST_F(ShardEquivalenceTest, Transformer) { expect_same(models::transformer()); }
TEST_F(ShardEquivalenceTest, Embedding) { expect_same(models::embedding()); }
TEST_F(ShardEquivalenceTest, Convnet) { expect_same(models::convnet()); }

/// Norms are those of whole gradients, and sums wait in parts, too.
TEST_F(ShardEquivalenceTest, ClippingAndGradientsThatAccumulate) {
  const auto with = [](const std::function<optimizers::Optimizer()>& optimizer) {
    TrainingCase training = models::mlp();
    training.compile = [=] {
      keras::CompileOptions options = models::classification();
      options.optimizer = optimizer();
      return options;
    };
    return training;
  };
  expect_same(with([] { return optimizers::Adam(0.01, {.global_clipnorm = 0.1}); }));
  expect_same(with([] {
    return optimizers::SGD(0.1,
                           {.momentum = 0.9, .clipnorm = 0.05, .gradient_accumulation_steps = 2});
  }));
}

}  // namespace
}  // namespace tandem::checks
