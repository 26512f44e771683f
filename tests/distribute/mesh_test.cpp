// Meshes and layouts: what fits, what is refused and how, what a strategy of a mesh tells.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "device/test/test_device.h"
#include "distribute/strategy_body.h"
#include "harness/fresh_devices.h"
#include "harness/temp_folder.h"
#include "harness/throws.h"
#include "tandem/checkpoint.h"
#include "tandem/keras/distribution.h"
#include "tandem/keras/layers.h"
#include "tandem/keras/model.h"
#include "tandem/ops.h"

namespace tandem::distribute {
namespace {

namespace layers = keras::layers;
using harness::throws;

class MeshTest : public harness::FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    config::set_logical_cpus({{.threads = 1}, {.threads = 1}, {.threads = 1}, {.threads = 1}});
  }

  static ModelParallel along_model(const std::string& key, const TensorLayout& layout) {
    LayoutMap layouts(DeviceMesh({2, 2}, {"data", "model"}));
    layouts[key] = layout;
    return ModelParallel(layouts);
  }
};

TEST_F(MeshTest, SizesNamesAndDevicesFitEachOther) {
  const DeviceMesh mesh({1, 4}, {"data", "model"});
  EXPECT_EQ(mesh.str(), "data 1 x model 4");
  EXPECT_EQ(mesh.size("model"), 4);
  EXPECT_EQ(mesh.size("stage"), 1);
  const auto make = [](std::vector<int> shape, std::vector<std::string> names,
                       std::vector<std::string> devices = {}) {
    return [=] { DeviceMesh(shape, names, devices); };
  };
  EXPECT_TRUE(throws<InvalidArgument>(make({2}, {"data", "model"}), {"1 sizes and 2 names"}));
  EXPECT_TRUE(throws<InvalidArgument>(make({2, 0}, {"data", "model"}), {"size 0"}));
  EXPECT_TRUE(throws<InvalidArgument>(make({2, 2}, {"data", "data"}), {"'data', 'data'"}));
  EXPECT_TRUE(throws<InvalidArgument>(make({3, 2}, {"data", "model"}), {"6 devices, there are 4"}));
  EXPECT_TRUE(
      throws<InvalidArgument>(make({2}, {"data"}, {"/CPU:0"}), {"1 devices", "data 2", "has 2"}));
}

TEST_F(MeshTest, LayoutsAreFoundByPathAndByPattern) {
  LayoutMap layouts(DeviceMesh({4}, {"model"}));
  layouts["dense/kernel"] = {"", "model"};
  layouts["kernel"] = {"model"};
  EXPECT_EQ(layouts.find("dense/kernel")->str(), "(-, model)");
  EXPECT_EQ(layouts.find("other/kernel")->str(), "(model)");
  EXPECT_EQ(layouts.find("other/bias"), nullptr);
  layouts["other.*"] = {};
  EXPECT_TRUE(throws<InvalidArgument>([&] { layouts.find("other/kernel"); },
                                      {"'kernel' and 'other.*'", "'other/kernel'"}));
}

TEST_F(MeshTest, LayoutsThatTheMeshOrTheLayerHasNothingForAreRefused) {
  EXPECT_TRUE(throws<InvalidArgument>([] { along_model("kernel", {"stage"}); },
                                      {"'kernel' is (stage)", "data 2 x model 2"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { along_model("kernel", {"data"}); }, {"(data)"}));
  const auto called = [](const std::string& key, const TensorLayout& layout,
                         const keras::Layer& layer) {
    return [=] {
      const auto strategy = along_model(key, layout);
      const auto scope = strategy.scope();
      layer(ones({5, 3}));
    };
  };
  EXPECT_TRUE(throws<InvalidArgument>(called("kernel", {"model"}, layers::Dense(4)),
                                      {"kernel", "[3,4]", "2 equal parts"}));
  const auto normalized = [] {
    const auto strategy = along_model("gamma", {"model"});
    const auto scope = strategy.scope();
    layers::LayerNormalization()(ones({5, 4}));
  };
  EXPECT_TRUE(throws<Unimplemented>(normalized, {"gamma", "layer_normalization", "(model)"}));
}

TEST_F(MeshTest, OptionsThatTheMeshHasNothingForAreRefused) {
  const auto make = [](const std::vector<int>& shape, const ModelParallelOptions& options) {
    return [=] { ModelParallel(LayoutMap(DeviceMesh(shape, {"data", "stage"})), options); };
  };
  EXPECT_TRUE(throws<InvalidArgument>(make({2, 1}, {.chunks = 2}),
                                      {"2 chunks", "data 2 x stage 1", "'stage' of several"}));
  EXPECT_TRUE(throws<InvalidArgument>(make({2, 1}, {.layers = {{"a"}, {"b"}}}),
                                      {"lists of layers", "'stage' of several"}));
  EXPECT_TRUE(throws<InvalidArgument>(make({2, 2}, {.layers = {{"a"}}}),
                                      {"1 lists of layers for 2 stages"}));
  EXPECT_TRUE(throws<InvalidArgument>(make({2, 2}, {.chunks = 2}), {"interleaved"}));
  EXPECT_TRUE(
      throws<InvalidArgument>(make({2, 1}, {.schedule = "zigzag"}), {"'zigzag'", "interleaved"}));
  EXPECT_TRUE(throws<InvalidArgument>(make({2, 2}, {.batch_dim_name = "stage"}),
                                      {"batch_dim_name is 'stage'", "data 2 x stage 2"}));
  EXPECT_TRUE(throws<InvalidArgument>(make({2, 2}, {.microbatches = 1}),
                                      {"ModelParallel: 1 micro-batch through 2 stages"}));
}

TEST_F(MeshTest, APartIsNotTakenForTheWhole) {
  const ModelParallel strategy = along_model("kernel", {"", "model"});
  const auto scope = strategy.scope();
  const layers::Dense dense(4);
  dense.build({{DType::float32, {-1, 3}}});
  const Tensor x = ones({6, 3});
  const auto wrong = function([&](const Tensor& rows) { return softmax(relu(dense(rows)) * 2.0); });
  EXPECT_TRUE(throws<InvalidArgument>([&] { strategy.run(wrong, strategy.split(x)); },
                                      {"softmax", "part of a value", "gather"}));
  const auto returned = function([&](const Tensor& rows) { return dense(rows); });
  EXPECT_TRUE(throws<InvalidArgument>([&] { strategy.run(returned, strategy.split(x)); },
                                      {"result", "axis 1"}));
  const auto right = function([&](const Tensor& rows) {
    return softmax(keras::distribution::gather(relu(dense(rows)) * 2.0));
  });
  const Tensor alone = softmax(relu(dense(x)) * 2.0);
  const Tensor joined = strategy.gather(strategy.run(right, strategy.split(x)), 0);
  ASSERT_EQ(joined.shape(), alone.shape());
  EXPECT_LT(reduce_max(abs(joined - alone)).item<float>(), 1e-6f);
}

/// A product by columns or by rows, as a program of one's own would write it.
class OwnProduct final : public keras::LayerBody {
 public:
  OwnProduct(const std::string& name, int64_t width)
      : LayerBody("own_product", name), width_(width) {}

  void build(const keras::TensorSpecs& inputs) override {
    const Shape shape{inputs[0].shape.extent(1), width_};
    kernel_ = add_weight("kernel", shape, {.dtype = DType::float64, .cut_axes = 2});
  }

  Tensors call(const Tensors& inputs, const keras::CallContext&) override {
    using namespace keras::distribution;
    const Tensor& x = inputs[0];
    const int axis = cut_axis(kernel_);
    if (axis == 1) return {mark_part(matmul(gather(x), part_of(kernel_, 1)), 1)};
    if (axis < 0) return {matmul(gather(x), kernel_.value())};
    return {sum_of_parts([&] { return matmul(part_of(x, 1), part_of(kernel_, 0)); })};
  }

 private:
  int64_t width_;
  Variable kernel_;
};

TEST_F(MeshTest, LayersOfOnesOwnComputeWithParts) {
  const auto losses = [](const std::optional<Strategy>& strategy) {
    random::set_seed(4);
    keras::distribution::set_distribution(strategy);
    const auto product = [](const char* name, int64_t width) {
      return keras::Layer(std::make_shared<OwnProduct>(name, width));
    };
    keras::Sequential model({product("up", 8), layers::Activation("tanh"), product("down", 2)});
    model.compile(
        {.optimizer = keras::optimizers::Adam(0.1), .loss = keras::losses::MeanSquaredError()});
    const Tensor x = reshape(range(0, 1, 1.0 / 48, DType::float64), {12, 4});
    const auto history = model.fit(
        x, slice(x, {0, 0}, {12, 2}),
        {.batch_size = 5, .epochs = 3, .verbose = keras::Verbose::silent, .shuffle = false});
    keras::distribution::set_distribution();
    return history.history.at("loss");
  };
  LayoutMap layouts(DeviceMesh({2, 2}, {"data", "model"}));
  layouts["up/kernel"] = {"", "model"};
  layouts["down/kernel"] = {"model"};
  const auto alone = losses(std::nullopt);
  const auto in_parts = losses(ModelParallel(layouts));
  ASSERT_EQ(alone.size(), in_parts.size());
  for (size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(alone[i], in_parts[i], 1e-9) << i;
}

TEST_F(MeshTest, ReplicasAlongTheBatchAreCountedAndRowsOnce) {
  const ModelParallel strategy = along_model("kernel", {"", "model"});
  EXPECT_EQ(strategy.num_replicas_in_sync(), 2);
  EXPECT_EQ(strategy.devices().size(), 4u);
  const auto f = function([](const Tensor& x) { return x * 1.0; });
  const Tensor x = Tensor::from({1., 2., 3.}, {3});
  const PerReplica rows = strategy.run(f, strategy.split(x));
  EXPECT_EQ(strategy.gather(rows, 0).to_vector<double>(), x.to_vector<double>());
  EXPECT_EQ(strategy.reduce(ReduceOp::sum, rows, 0).item<double>(), 6);
  EXPECT_EQ(strategy.reduce(ReduceOp::mean, rows, 0).item<double>(), 2);
  const auto mean = function([](const Tensor& each) { return compute_average_loss(each); });
  EXPECT_EQ(strategy.reduce(ReduceOp::sum, strategy.run(mean, strategy.split(x))).item<double>(),
            2);
  const std::string text = strategy.explain();
  for (const char* told : {"mesh: data 2 x model 2", "/device:CPU:3 has shard 1 of 2",
                           "part 1 of 2", "'kernel' are cut (-, model)"}) {
    EXPECT_NE(text.find(told), std::string::npos) << text;
  }
}

/// Who has what, what a step tells along each axis, the schedule, and the memory it takes.
TEST_F(MeshTest, WhatHasRunIsExplained) {
  const auto told = [](const std::vector<int>& shape, const ModelParallelOptions& options) {
    LayoutMap layouts(DeviceMesh(shape, {"data", "stage", "model"}));
    layouts["up/kernel"] = {"", "model"};
    layouts["down/kernel"] = {"model"};
    const ModelParallel strategy(layouts, options);
    const auto scope = strategy.scope();
    const keras::Sequential model({layers::Dense(8, {.use_bias = false, .name = "up"}),
                                   layers::Dense(4, {.use_bias = false, .name = "down"})});
    model.compile({.optimizer = keras::optimizers::SGD(0.1), .loss = "mse"});
    model.fit(ones({8, 4}), ones({8, 4}), {.batch_size = 8, .verbose = keras::Verbose::silent});
    return strategy.explain();
  };
  const auto expect = [](const std::string& text, const std::vector<std::string>& parts) {
    for (const std::string& part : parts) {
      EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
    }
  };
  expect(told({2, 1, 2}, {}),
         {"a run on 4 rows in each replica", "along the model's axis: ", "over all replicas: ",
          "along the data axis: ", "/device:CPU:3 takes "});
  // Four rows go to stage 1 in each of two micro-batches and come back, by 8 columns of which each
  // member has 4, in float32.
  expect(told({1, 2, 2}, {.microbatches = 2, .layers = {{"up"}, {"down"}}}),
         {"a run on 4 rows in each micro-batch", "between stages: 4 tensors a run, 256 B",
          "between the members of a stage: ", "schedule 1f1b", "stages wait 33 % of the time",
          "stage 1    0 [0] 1 [1]", "/device:CPU:3 holds 32.8 KB of variables",
          "/device:CPU:3 takes "});
  expect(told({2, 2, 1}, {.microbatches = 2}), {"between pipelines: "});
  // The gradients of both kernels, of 4 x 8 elements in float32, are summed to parts once, or with
  // each of two micro-batches. Parts of 64 elements are joined for three passes of each of these.
  // Two sums are of the loss.
  const auto with = [&](Shard shard) {
    return told({2, 2, 1}, {.microbatches = 2, .layers = {{"up"}, {"down"}}, .shard = shard});
  };
  expect(with(Shard::state), {"/device:CPU:2 has shard 1 of 2 of the batch, part 0 of 1 of the "
                              "weights, part 1 of 2 of slots\n",
                              "over all members of a stage: 4 sums a run, 296 B"});
  expect(with(Shard::gradients), {"part 1 of 2 of slots and sums of gradients\n",
                                  "over all members of a stage: 6 sums a run, 552 B"});
  expect(with(Shard::variables), {"part 1 of 2 of variables, slots and sums of gradients\n",
                                  "over all members of a stage: 12 sums a run, 2.1 KB"});
}

/// What layers sum along the model's axis comes by way of staging memory, which follows the batch.
TEST_F(MeshTest, AMemoryPlanHasTheStagingOfSumsAlongTheModel) {
  constexpr int64_t kRows = 512;
  devices::reset_devices();
  for (int index : {0, 1}) devices::test::add_test_gpu({.index = index});
  LayoutMap layouts(DeviceMesh({1, 2}, {"data", "model"}, {"/GPU:0", "/GPU:1"}));
  layouts["kernel"] = {"model"};
  const ModelParallel strategy(layouts);
  const auto scope = strategy.scope();
  const layers::Dense dense(256, {.use_bias = false});
  dense.build({{DType::float32, {-1, 64}}});
  const auto f = function([&](const Tensor& x) { return reduce_sum(dense(x)); });
  const Tensor x = [] {
    const auto host = device("/CPU:0");
    return ones({kRows, 64});
  }();
  const PerReplica batch = strategy.split(x);
  strategy.body().compile(strategy, f, {&batch, 1});
  const auto info = [](const MemoryPlan::Device& device) {
    return config::get_memory_info(device.name);
  };
  const MemoryPlan plan = f.memory_plan(kRows);
  ASSERT_EQ(plan.devices.size(), 2u);
  std::vector<size_t> before;
  for (const MemoryPlan::Device& device : plan.devices) before.push_back(info(device).current);
  strategy.local_results(strategy.run(f, batch));
  const size_t copied = devices::Allocator::rounded(kRows * 64 * sizeof(float));
  for (size_t i = 0; i < plan.devices.size(); ++i) {
    const MemoryPlan::Device& device = plan.devices[i];
    EXPECT_EQ(info(device).peak - before[i], device.bytes() + copied);
    EXPECT_GE(device.copy_bytes, kRows * 256 * sizeof(float) / 2);
  }
}

constexpr int64_t kWidth = 256;
constexpr int kPairs = 6;
/// The bytes of the kernels of the model below.
constexpr size_t kKernelBytes = size_t{2} * kPairs * kWidth * kWidth * sizeof(float);

void use_cpus(size_t memory_limit) {
  devices::reset_devices();
  config::set_logical_cpus(
      std::vector<config::LogicalCpu>(4, {.threads = 1, .memory_limit = memory_limit}));
}

/// Trains pairs of layers, by columns and by rows, each half of them in the scope of a device if
/// these are given, and returns the losses.
std::vector<double> losses_of_pairs(const Strategy& strategy,
                                    const std::vector<std::string>& halves = {"", ""}) {
  const auto scope = strategy.scope();
  random::set_seed(3);
  const keras::KerasTensor x = keras::Input({kWidth});
  keras::KerasTensor y = x;
  for (int i = 0; i < kPairs; ++i) {
    const auto half = device(halves[static_cast<size_t>(2 * i / kPairs)]);
    y = layers::Dense(kWidth, {.activation = "relu", .name = fmt::format("up{}", i)})(y);
    y = layers::Dense(kWidth, {.name = fmt::format("down{}", i)})(y);
  }
  const keras::Model model({x}, {y});
  model.compile({.optimizer = keras::optimizers::SGD(0.01), .loss = "mse"});
  return model
      .fit(ones({16, kWidth}), ones({16, kWidth}),
           {.batch_size = 8, .epochs = 3, .verbose = keras::Verbose::silent})
      .history.at("loss");
}

Strategy cut_over(const DeviceMesh& mesh) {
  LayoutMap layouts(mesh);
  layouts["up./kernel"] = {"", "model"};
  layouts["down./kernel"] = {"model"};
  return ModelParallel(layouts);
}

TEST_F(MeshTest, AModelLargerThanEachDeviceTrainsInParts) {
  use_cpus(0);
  const std::vector<double> expected = losses_of_pairs(OneDeviceStrategy("/CPU:0"));
  const size_t limit = kKernelBytes * 9 / 10;
  use_cpus(limit);
  EXPECT_TRUE(throws<ResourceExhausted>([] { losses_of_pairs(OneDeviceStrategy("/CPU:0")); },
                                        {"/device:CPU:0", "out of memory"}));
  const auto expect_losses = [&](const std::vector<double>& losses) {
    ASSERT_EQ(losses.size(), expected.size());
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-4);
  };
  use_cpus(limit);
  expect_losses(losses_of_pairs(cut_over(DeviceMesh({1, 4}, {"data", "model"}))));
  // Weights and gradients are all that takes much, and each device has a quarter of both.
  for (int cpu = 1; cpu < 4; ++cpu) {
    EXPECT_LT(config::get_memory_info(fmt::format("/CPU:{}", cpu)).peak, kKernelBytes * 6 / 10);
  }
  // Each stage has layers of its own.
  for (const std::vector<int>& shape : {std::vector{1, 2, 2}, std::vector{1, 4, 1}}) {
    use_cpus(limit);
    expect_losses(losses_of_pairs(cut_over(DeviceMesh(shape, {"data", "stage", "model"}))));
  }
}

constexpr int64_t kOfShards = 512;

/// What each device holds of a model in two stages that has been trained with this Shard, on the
/// devices that there are.
std::map<std::string, HeldBytes> held_with(Shard shard) {
  const ModelParallel strategy(LayoutMap(DeviceMesh({2, 2}, {"data", "stage"})),
                               {.microbatches = 2, .layers = {{"a"}, {"b"}}, .shard = shard});
  const auto scope = strategy.scope();
  random::set_seed(3);
  const keras::Sequential model({layers::Dense(kOfShards, {.use_bias = false, .name = "a"}),
                                 layers::Dense(kOfShards, {.use_bias = false, .name = "b"})});
  model.compile({.optimizer = keras::optimizers::Adam(0.01), .loss = "mse"});
  model.fit(ones({16, kOfShards}), ones({16, kOfShards}),
            {.batch_size = 8, .verbose = keras::Verbose::silent});
  std::map<std::string, HeldBytes> held = strategy.body().store()->held_bytes();
  for (const auto& [device, own] : strategy.body().stage_stores()[0]->held_bytes()) {
    held[device].variables += own.variables;
    held[device].slots += own.slots;
  }
  EXPECT_NE(strategy.explain().find(shard == Shard::state ? ", part 1 of 2 of slots\n" : ""),
            std::string::npos)
      << strategy.explain();
  return held;
}

/// Each of the two devices of a stage has a half of its slots, and with Shard::variables of the
/// kernels, too; nobody has anything of the other stage's.
TEST_F(MeshTest, WithShardsTheDevicesOfAStageKeepPartsOfItsState) {
  constexpr size_t kOne = size_t{kOfShards} * kOfShards * sizeof(float);
  constexpr size_t kSmall = size_t{256} << 10;  // Counters and the like take it.
  use_cpus(0);
  const auto whole = held_with(Shard::nothing);
  EXPECT_GE(whole.at("/device:CPU:0").slots, 2 * kOne);
  EXPECT_EQ(whole.contains("/device:CPU:2"), false);
  for (Shard shard : {Shard::state, Shard::gradients, Shard::variables}) {
    use_cpus(0);
    auto held = held_with(shard);
    for (int cpu = 0; cpu < 4; ++cpu) {
      const HeldBytes own = held[fmt::format("/device:CPU:{}", cpu)];
      EXPECT_GE(own.slots, 2 * kOne / 2) << cpu;
      EXPECT_LE(own.slots, 2 * kOne / 2 + kSmall) << cpu;
      if (shard == Shard::variables) {
        EXPECT_GE(own.variables, kOne / 2) << cpu;
        EXPECT_LE(own.variables, kOne / 2 + kSmall) << cpu;
      }
    }
  }
}

TEST_F(MeshTest, WithShardsTheGpusOfAStageKeepPartsOfItsState) {
  constexpr size_t kOne = size_t{kOfShards} * kOfShards * sizeof(float);
  constexpr size_t kSmall = size_t{256} << 10;
  for (Shard shard : {Shard::state, Shard::gradients, Shard::variables}) {
    use_cpus(0);
    for (int gpu = 0; gpu < 4; ++gpu) config::add_test_device();
    auto held = held_with(shard);
    for (int gpu = 0; gpu < 4; ++gpu) {
      const HeldBytes own = held[fmt::format("/device:GPU:{}", gpu)];
      EXPECT_GE(own.slots, 2 * kOne / 2) << gpu;
      EXPECT_LE(own.slots, 2 * kOne / 2 + kSmall) << gpu;
      // Each has all variables of its stage, or its parts of them.
      const size_t variables = shard == Shard::variables ? kOne / 2 : kOne;
      EXPECT_GE(own.variables, variables) << gpu;
      EXPECT_LE(own.variables, variables + kSmall) << gpu;
    }
  }
}

/// Each of two stages is two GPUs, none of which has room for the model.
TEST_F(MeshTest, AModelLargerThanEachGpuTrainsInPartsOfStages) {
  use_cpus(0);
  const std::vector<double> expected = losses_of_pairs(OneDeviceStrategy("/CPU:0"));
  const size_t limit = kKernelBytes;
  devices::reset_devices();
  for (int gpu = 0; gpu < 4; ++gpu) config::add_test_device({.memory = limit});
  EXPECT_TRUE(throws<ResourceExhausted>([] { losses_of_pairs(OneDeviceStrategy("/GPU:0")); },
                                        {"/device:GPU:0", "out of memory"}));
  const Strategy strategy = cut_over(DeviceMesh({1, 2, 2}, {"data", "stage", "model"}));
  const std::vector<double> losses = losses_of_pairs(strategy, {"/GPU:0", "/GPU:2"});
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-4);
  const std::string text = strategy.explain();
  EXPECT_NE(text.find("stage 1 on /device:GPU:2 and /device:GPU:3"), std::string::npos) << text;
}

/// Saves a model that was trained on one mesh, and goes on with it on others.
TEST_F(MeshTest, ACheckpointGoesOnOnAnyOtherMesh) {
  struct Training {
    Training(const Strategy& by, const Tensor& inputs, const Tensor& truths)
        : x(inputs), y(truths), strategy(by) {
      const auto scope = strategy.scope();
      model = keras::Sequential({layers::Dense(8, {.activation = "tanh", .name = "up"}),
                                 layers::Dense(4, {.name = "down"})});
      model.compile({.optimizer = optimizer = keras::optimizers::Adam(0.01), .loss = "mse"});
      model.predict(x);
      optimizer.build(model.trainable_weights());
    }

    void train() const {
      model.fit(x, y, {.batch_size = 4, .verbose = keras::Verbose::silent, .shuffle = false});
    }
    train::Checkpoint checkpoint() const {
      return train::Checkpoint({{"model", model}, {"optimizer", optimizer}});
    }

    Tensor x, y;
    Strategy strategy;
    keras::Model model = keras::Sequential();
    keras::optimizers::Optimizer optimizer = keras::optimizers::Adam(0.01);
  };
  const auto on = [](const std::vector<int>& shape) {
    LayoutMap layouts(DeviceMesh(shape, {"data", "model"}));
    layouts["up/kernel"] = {"", "model"};
    layouts["down/kernel"] = {"model"};
    return ModelParallel(layouts);
  };
  const auto on_stages = [](const std::vector<int>& shape, Shard shard = Shard::nothing) {
    LayoutMap layouts(DeviceMesh(shape, {"data", "stage", "model"}));
    layouts["up/kernel"] = {"", "model"};
    layouts["down/kernel"] = {"model"};
    return ModelParallel(layouts, {.microbatches = 2, .shard = shard});
  };
  const harness::TempFolder folder;
  const Tensor x = random_uniform({12, 6}, -1, 1, {.dtype = DType::float64, .seed = 1});
  const Tensor y = random_uniform({12, 4}, -1, 1, {.dtype = DType::float64, .seed = 2});
  const std::vector<Strategy> all{
      on({2, 2}),
      on({1, 2}),
      on({2, 1}),
      on({1, 4}),
      ModelParallel(LayoutMap(DeviceMesh({2, 1}, {"data", "model"})), {.shard = Shard::variables}),
      on_stages({1, 2, 2}),
      on_stages({2, 2, 1}),
      on_stages({2, 2, 1}, Shard::state),
      on_stages({2, 2, 1}, Shard::gradients),
      on_stages({2, 2, 1}, Shard::variables),
      PipelineStrategy({.stages = 2, .microbatches = 3}),
      MirroredStrategy({"/CPU:0", "/CPU:1"}, {.shard = Shard::variables}),
      MirroredStrategy({}, {.shard = Shard::state}),
      OneDeviceStrategy("/CPU:0")};
  for (const Strategy& from : {on({2, 2}), on_stages({1, 2, 2}), on_stages({2, 2, 1}, Shard::state),
                               on_stages({2, 2, 1}, Shard::variables)}) {
    const Training first(from, x, y);
    first.train();
    first.checkpoint().write(folder / "c");
    first.train();
    for (const Strategy& strategy : all) {
      const Training other(strategy, x, y);
      other.checkpoint().restore(folder / "c").assert_consumed();
      other.train();
      for (size_t i = 0; i < first.model.weights().size(); ++i) {
        const Tensor difference =
            first.model.weights()[i].value() - other.model.weights()[i].value();
        EXPECT_LT(reduce_max(abs(difference)).item<double>(), 1e-9)
            << from.explain() << strategy.explain();
      }
    }
  }
}

TEST_F(MeshTest, WhatIsSetIsTheScopeUntilItIsSetAgain) {
  EXPECT_FALSE(keras::distribution::distribution());
  const ModelParallel strategy = along_model("kernel", {"", "model"});
  keras::distribution::set_distribution(strategy);
  EXPECT_EQ(get_strategy(), strategy);
  EXPECT_EQ(*keras::distribution::distribution(), strategy);
  keras::distribution::set_distribution();
  EXPECT_FALSE(has_strategy());
  EXPECT_EQ(DataParallel(DeviceMesh({3}, {"data"})).num_replicas_in_sync(), 3);
}

}  // namespace
}  // namespace tandem::distribute
