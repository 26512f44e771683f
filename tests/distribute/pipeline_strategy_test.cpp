// A model in stages: where they come from, what goes wrong in them, what the strategy says.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "device/test/test_device.h"
#include "harness/classifier.h"
#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "op/instruction_hook.h"
#include "profile/session.h"
#include "tandem/keras/layers.h"
#include "tandem/keras/model.h"

namespace tandem::distribute {
namespace {

using harness::Classifier;
using harness::throws;

class PipelineStrategyTest : public harness::FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    config::set_logical_cpus({{.threads = 1}, {.threads = 1}, {.threads = 1}});
  }
};

/// A model under training, and its losses.
struct PipelinedTraining {
  explicit PipelinedTraining(const Strategy& by) : strategy(by) {}

  Strategy strategy;
  Classifier<double> model = [this] {
    const auto scope = strategy.scope();
    return Classifier<double>();
  }();
  decltype(model.compiled_step()) step = model.compiled_step();

  double train(int64_t rows = 60) const {
    const PerReplica x = strategy.split(harness::features<double>(rows));
    const PerReplica y = strategy.split(harness::labels<double>(rows));
    return strategy.reduce(ReduceOp::sum, strategy.run(step, x, y)).item<double>();
  }
};

TEST_F(PipelineStrategyTest, ALoopOfOnesOwnHasTheLossesOfOneDevice) {
  const PipelinedTraining one{OneDeviceStrategy("/cpu:0")};
  const PipelinedTraining staged{PipelineStrategy({.stages = 2, .microbatches = 4})};
  const PipelinedTraining in_turn{PipelineStrategy({.stages = 1, .microbatches = 7})};
  for (int step = 0; step < 4; ++step) {
    const double loss = one.train();
    EXPECT_NEAR(staged.train(), loss, 1e-12);
    EXPECT_NEAR(in_turn.train(), loss, 1e-12);
  }
  EXPECT_NE(staged.step.explain().find("4 micro-batches through 2 stages, schedule 1f1b"),
            std::string::npos)
      << staged.step.explain();
}

TEST_F(PipelineStrategyTest, ScopesSayWhichCallsAreOnWhichStage) {
  const PipelineStrategy strategy({.stages = 2, .microbatches = 2});
  const auto f = function([](const Tensor& x) {
    const auto scope = device("/cpu:1");
    return exp(x);
  });
  const Tensor x = Tensor::from({1., 2., 3.}, {3});
  const Tensor gathered = strategy.gather(strategy.run(f, strategy.split(x)), 0);
  EXPECT_EQ(gathered.to_vector<double>(), exp(x).to_vector<double>());
  EXPECT_NE(f.explain().find("on /device:CPU:1"), std::string::npos) << f.explain();
  const auto back = function([](const Tensor& x) {
    Tensor y;
    {
      const auto scope = device("/cpu:1");
      y = exp(x);
    }
    const auto scope = device("/cpu:0");
    return log(y);
  });
  EXPECT_TRUE(throws<InvalidArgument>([&] { strategy.run(back, strategy.split(x)); },
                                      {"log on /device:CPU:0", "in their order"}));
  const auto elsewhere = function([](const Tensor& x) {
    const auto scope = device("/cpu:2");
    return exp(x);
  });
  EXPECT_TRUE(throws<InvalidArgument>([&] { strategy.run(elsewhere, strategy.split(x)); },
                                      {"exp on /device:CPU:2", "/device:CPU:0 /device:CPU:1"}));
}

TEST_F(PipelineStrategyTest, WhatGoesWrongInAStageNamesItAndTheNextStepIsAsBefore) {
  const PipelineStrategy strategy({.stages = 2, .microbatches = 3});
  const auto scope = strategy.scope();
  const Variable w(fill({2, 2}, 0.5));
  const auto f = function([&](const Tensor& x, const Tensor& row) {
    const Tensor hidden = matmul(x, w.value());
    const auto upper = device("/cpu:1");
    return gather(hidden, row, 1);
  });
  const Tensor x = ones({6, 2});
  const auto run = [&](int32_t row) {
    return strategy.run(f, strategy.split(x), PerReplica(Tensor::from({row}, {1})));
  };
  EXPECT_TRUE(throws<InvalidArgument>([&] { run(7); }, {"stage 1 on /device:CPU:1", "gather"}));
  EXPECT_EQ(strategy.gather(run(1), 0).to_vector<float>(), std::vector<float>(6, 1.f));
}

TEST_F(PipelineStrategyTest, WhatAMicroBatchWouldHaveToWaitForIsRefused) {
  const PipelineStrategy strategy({.stages = 1, .microbatches = 2});
  const auto scope = strategy.scope();
  const Variable w(Tensor(1.f));
  const auto f = function([&](const Tensor& x) {
    const Tensor y = x * w.value();
    return y - get_replica_context()->all_reduce(ReduceOp::mean, reduce_mean(y));
  });
  EXPECT_TRUE(throws<Unimplemented>([&] { strategy.run(f, strategy.split(ones({4}))); },
                                    {"sub", "micro-batches", "sum or average"}));
}

/// Two GPUs of so much memory; 0: as much as it takes.
void use_gpus(size_t memory) {
  devices::reset_devices();
  for (int index : {0, 1}) devices::test::add_test_gpu({.index = index});
  for (const config::PhysicalDevice& gpu : config::list_physical_devices("GPU")) {
    config::set_logical_device_configuration(gpu, {{.memory_limit = memory}});
  }
}

/// Trains layers that are on GPU:0 and on `second`, and returns the most memory of either.
size_t peak_of_training(const Strategy& strategy, const std::string& second) {
  namespace layers = keras::layers;
  constexpr int64_t kWidth = 256;
  const auto scope = strategy.scope();
  const auto x = keras::Input({kWidth});
  const auto hidden = [&] {
    const auto first = device("/GPU:0");
    return layers::Dense(kWidth)(layers::Dense(kWidth)(x));
  }();
  const auto upper = device(second);
  const auto top = layers::Dense(kWidth)(layers::Dense(kWidth)(hidden));
  const keras::Model model({x}, {layers::Dense(1)(top)});
  model.compile({.optimizer = keras::optimizers::Adam(0.001), .loss = "mse"});
  model.fit(ones({16, kWidth}), ones({16, 1}),
            {.batch_size = 8, .epochs = 2, .verbose = keras::Verbose::silent});
  return std::max(config::get_memory_info("/GPU:0").peak, config::get_memory_info("/GPU:1").peak);
}

TEST_F(PipelineStrategyTest, AModelThatExceedsEachDeviceTrainsInStages) {
  const auto alone = [] { return peak_of_training(OneDeviceStrategy("/GPU:0"), "/GPU:0"); };
  const auto staged = [] {
    const PipelineStrategy strategy(
        {.stages = 2, .microbatches = 2, .devices = {"/GPU:0", "/GPU:1"}});
    return peak_of_training(strategy, "/GPU:1");
  };
  use_gpus(0);
  const size_t on_one = alone();
  use_gpus(0);
  const size_t on_two = staged();
  ASSERT_LT(on_two, on_one);
  const size_t between = (on_one + on_two) / 2;
  use_gpus(between);
  EXPECT_TRUE(throws<ResourceExhausted>(alone, {"/device:GPU:0", "out of memory"}));
  use_gpus(between);
  EXPECT_LE(staged(), between);
}

/// Layers whose weights exceed what each logical CPU may take are kept by the stages that have
/// them: those of the scopes, those of the lists, or where stages are searched for those with room.
TEST_F(PipelineStrategyTest, AModelThatExceedsEachLogicalCpuTrainsInStages) {
  namespace layers = keras::layers;
  constexpr int64_t kWidth = 512;
  constexpr int kLayers = 8;
  constexpr size_t kKernelBytes = size_t{kLayers} * kWidth * kWidth * sizeof(float);
  const auto use_cpus = [](size_t limit) {
    devices::reset_devices();
    config::set_logical_cpus(
        std::vector<config::LogicalCpu>(4, {.threads = 1, .memory_limit = limit}));
  };
  const auto losses = [&](const Strategy& strategy, bool in_scopes) {
    const auto scope = strategy.scope();
    random::set_seed(3);
    const auto x = keras::Input({kWidth});
    auto y = x;
    for (int i = 0; i < kLayers; ++i) {
      const auto stage = device(in_scopes ? fmt::format("/CPU:{}", i / 2) : "");
      y = layers::Dense(kWidth, {.activation = "tanh", .name = fmt::format("layer{}", i)})(y);
    }
    const keras::Model model({x}, {y});
    model.compile({.optimizer = keras::optimizers::SGD(0.1), .loss = "mse"});
    return model
        .fit(ones({16, kWidth}), ones({16, kWidth}),
             {.batch_size = 8, .epochs = 3, .verbose = keras::Verbose::silent})
        .history.at("loss");
  };
  use_cpus(0);
  const std::vector<double> expected = losses(OneDeviceStrategy("/CPU:0"), false);
  const size_t limit = kKernelBytes * 19 / 20;
  use_cpus(limit);
  EXPECT_TRUE(throws<ResourceExhausted>([&] { losses(OneDeviceStrategy("/CPU:0"), false); },
                                        {"/device:CPU:0", "out of memory"}));
  const std::vector<std::vector<std::string>> pairs{
      {"layer0", "layer1"}, {"layer2", "layer3"}, {"layer4", "layer5"}, {"layer6", "layer7"}};
  const PipelineOptions searched{.stages = 4, .microbatches = 4};
  PipelineOptions listed = searched;
  listed.layers = pairs;
  for (const auto& [options, in_scopes] :
       {std::pair{searched, true}, {listed, false}, {searched, false}}) {
    use_cpus(limit);
    const PipelineStrategy strategy(options);
    const std::vector<double> found = losses(strategy, in_scopes);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4);
    EXPECT_GT(config::get_memory_info("/CPU:3").peak, kKernelBytes / 4);
  }
}

/// By what they cost the calls would be cut in their middle; one of them is made slow.
TEST_F(PipelineStrategyTest, StagesAreFoundByMeasuredTimes) {
  op::set_instruction_hook([](int, const std::string& name) {
    if (name == "tanh") std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
  const PipelineStrategy strategy({.stages = 2, .microbatches = 2});
  const auto f = function([](const Tensor& x) {
    Tensor y = tanh(x);
    for (int i = 0; i < 4; ++i) y = sigmoid(y);
    return y;
  });
  const Tensor x = fill({512, 256}, 0.5, DType::float64);
  const Tensor y = strategy.gather(strategy.run(f, strategy.split(x)), 0);
  op::set_instruction_hook({});
  EXPECT_NEAR(reduce_max(y).item<double>(), 0.6585, 1e-3);
  const std::string text = f.explain();
  const size_t first = text.find("chunk 0, forward");
  const size_t second = text.find("chunk 1, forward");
  EXPECT_LT(text.find("tanh", first), second) << text;
  EXPECT_GT(text.find("sigmoid", first), second) << text;
  EXPECT_NE(text.find("sigmoid", second), std::string::npos) << text;
  EXPECT_NE(text.find("kinds of which were measured"), std::string::npos) << text;
}

/// Trains layers of one width in two stages, the first of so much memory, and returns the losses.
std::vector<double> losses_in_stages(size_t memory,
                                     const std::vector<std::vector<std::string>>& layers) {
  devices::reset_devices();
  config::set_logical_cpus({{.threads = 1, .memory_limit = memory}, {.threads = 1}});
  const PipelineStrategy strategy({.stages = 2, .microbatches = 4, .layers = layers});
  const auto scope = strategy.scope();
  random::set_seed(4);
  const keras::Sequential model;
  for (int i = 0; i < 8; ++i) {
    model.add(keras::layers::Dense(128, {.activation = "tanh", .name = fmt::format("layer{}", i)}));
  }
  model.add(keras::layers::Dense(1, {.name = "head"}));
  model.compile({.optimizer = keras::optimizers::SGD(0.01), .loss = "mse"});
  return model
      .fit(ones({4096, 8}), ones({4096, 1}),
           {.batch_size = 4096, .epochs = 2, .verbose = keras::Verbose::silent})
      .history.at("loss");
}

TEST_F(PipelineStrategyTest, AStageWithLittleMemoryHasFewerLayers) {
  const std::vector<std::vector<std::string>> halves{
      {"layer0", "layer1", "layer2", "layer3"}, {"layer4", "layer5", "layer6", "layer7", "head"}};
  const std::vector<double> expected = losses_in_stages(0, halves);
  const size_t limit = config::get_memory_info("/CPU:0").peak * 3 / 4;
  EXPECT_TRUE(throws<ResourceExhausted>([&] { losses_in_stages(limit, halves); },
                                        {"/device:CPU:0", "out of memory"}));
  const std::vector<double> found = losses_in_stages(limit, {});
  EXPECT_LE(config::get_memory_info("/CPU:0").peak, limit);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5);
}

TEST_F(PipelineStrategyTest, AProfileHasARowForEachStage) {
  const PipelinedTraining staged{PipelineStrategy({.stages = 2, .microbatches = 4})};
  staged.train();
  profile::start();
  for (int step = 0; step < 3; ++step) staged.train();
  int stages = 0;
  for (const auto& row : profile::finish().rows) {
    if (!row->name.starts_with("stage ")) continue;
    EXPECT_EQ(row->name, fmt::format("stage {0} on /device:CPU:{0}", stages));
    EXPECT_GT(row->intervals.size(), 3u * 4u);
    ++stages;
  }
  EXPECT_EQ(stages, 2);
}

TEST_F(PipelineStrategyTest, SumsThatTheBatchAloneDecidesAreTakenFirst) {
  const PipelineStrategy strategy({.stages = 2, .microbatches = 2});
  const auto f = function([](const Tensor& x) {
    return x - get_replica_context()->all_reduce(ReduceOp::sum, reduce_sum(x));
  });
  const Tensor x = Tensor::from({1., 2., 3., 4.}, {4});
  for (int run = 0; run < 2; ++run) {
    EXPECT_EQ(strategy.gather(strategy.run(f, strategy.split(x)), 0).to_vector<double>(),
              (std::vector<double>{-9, -8, -7, -6}));
  }
  EXPECT_NE(f.explain().find("before all others"), std::string::npos) << f.explain();
}

TEST_F(PipelineStrategyTest, OptionsThatMakeNoPipeline) {
  const auto make = [](const PipelineOptions& options) {
    return [options] { PipelineStrategy strategy(options); };
  };
  EXPECT_TRUE(
      throws<InvalidArgument>(make({.stages = 4, .microbatches = 8}), {"4 stages", "1 to 3"}));
  EXPECT_TRUE(throws<InvalidArgument>(make({.stages = 2, .microbatches = 2, .replicas = 2}),
                                      {"2 stages in each of 2 pipelines on 3 devices"}));
  EXPECT_TRUE(throws<InvalidArgument>(make({.stages = 2, .microbatches = 0}), {"0 micro-batches"}));
  EXPECT_TRUE(throws<InvalidArgument>(make({.stages = 2}), {"1 micro-batch through 2 stages"}));
  EXPECT_TRUE(
      throws<InvalidArgument>(make({.microbatches = 4, .schedule = "zigzag"}), {"zigzag", "1f1b"}));
  EXPECT_TRUE(throws<InvalidArgument>(make({.microbatches = 4, .chunks = 2}), {"chunks"}));
}

TEST_F(PipelineStrategyTest, ItSaysItsStagesItsScheduleAndItsWaits) {
  const PipelineStrategy strategy({.stages = 2, .microbatches = 4});
  EXPECT_EQ(strategy.num_replicas_in_sync(), 4);
  const std::string text = strategy.explain();
  for (const char* part : {"PipelineStrategy: 4 micro-batches", "stage 1 on /device:CPU:1",
                           "schedule 1f1b, stages wait 20 % of the time"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
}

/// A stage has less of each micro-batch that is under way.
TEST_F(PipelineStrategyTest, RecomputedLayersKeepLessForTheBackwardPass) {
  const auto kept = [](bool recomputed) {
    const PipelineStrategy strategy({.stages = 2, .microbatches = 4});
    const auto scope = strategy.scope();
    const keras::Sequential model;
    for (int i = 0; i < 4; ++i) {
      const keras::Sequential block(
          {keras::layers::Dense(256, {.activation = "gelu", .input_shape = {16}}),
           keras::layers::Dense(16)});
      model.add(recomputed ? keras::Layer(keras::layers::Recompute(block)) : keras::Layer(block));
    }
    model(ones({2, 16}));
    const keras::optimizers::SGD optimizer(0.01);
    const auto step = function([&](const Tensor& x) {
      GradientTape tape;
      const Tensor loss = reduce_sum(square(model(x, {.training = true})));
      const Variables weights = model.trainable_weights();
      optimizer.apply_gradients(tape.gradient(loss, weights), weights);
      return loss;
    });
    strategy.run(step, strategy.split(ones({64, 16})));
    size_t bytes = 0;
    for (const auto& device : step.memory_plan(16).devices) bytes += device.result_bytes;
    return bytes;
  };
  EXPECT_LT(kept(true), kept(false) / 2);
}

TEST_F(PipelineStrategyTest, MicroBatchesNeedTheMemoryOfOne) {
  const auto arena = [](const Strategy& strategy, int64_t rows) {
    const PipelinedTraining training{strategy};
    training.train(rows);
    size_t bytes = 0;
    for (const auto& each :
         training.step.memory_plan(rows / strategy.num_replicas_in_sync()).devices) {
      bytes += each.arena_bytes + each.result_bytes;
    }
    return bytes;
  };
  const size_t whole = arena(OneDeviceStrategy("/cpu:0"), 8000);
  const size_t parts = arena(PipelineStrategy({.stages = 1, .microbatches = 8}), 8000);
  EXPECT_LT(parts, whole / 4);
}

}  // namespace
}  // namespace tandem::distribute
