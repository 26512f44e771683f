// Meshes of one device in each of several processes, over a plain transport and over sockets: the
// result of one device with weights cut over some processes and batches over others, on CPUs and on
// a GPU in each, what each keeps, checkpoints, and what is refused.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iomanip>
#include <numeric>

#include "checks/models.h"
#include "device/logical_device.h"
#include "distribute/mesh_axes.h"
#include "distribute/multi_worker.h"
#include "distribute/strategy_body.h"
#include "harness/free_port.h"
#include "harness/opencl.h"
#include "harness/socket_group.h"
#include "harness/temp_folder.h"
#include "harness/throws.h"
#include "tandem/checkpoint.h"

namespace tandem::distribute {
namespace {

using harness::throws;
namespace layers = keras::layers;
namespace models = checks::models;
using GroupPtr = std::shared_ptr<harness::SocketGroup>;
using Layouts = std::vector<std::pair<std::string, TensorLayout>>;

void use_cpu(size_t memory_limit = 0) {
  devices::reset_devices();
  config::set_logical_cpus({{.threads = 1, .memory_limit = memory_limit}});
  random::set_seed(1);
}

/// A device with memory of its own beside the CPU.
void use_test_gpu() {
  use_cpu();
  config::add_test_device();
}

void use_opencl_gpu() {
  devices::reset_devices();
  harness::use_opencl();
  random::set_seed(1);
}

int count_of(const std::vector<int>& shape) {
  return std::accumulate(shape.begin(), shape.end(), 1, std::multiplies<>());
}

LayoutMap layouts_on(const std::vector<int>& shape, const Layouts& layouts,
                     const std::vector<std::string>& axes = {"data", "model"},
                     const std::string& device = "CPU:0") {
  std::vector<std::string> devices;
  for (int task = 0; task < count_of(shape); ++task) {
    devices.push_back(fmt::format("/job:worker/task:{}/device:{}", task, device));
  }
  LayoutMap map(DeviceMesh(shape, axes, devices));
  for (const auto& [key, layout] : layouts) map[key] = layout;
  return map;
}

/// By columns, with dropout of parts, by rows, and by columns again into a loss by classes. Norms
/// of gradients are those of whole kernels.
checks::TrainingCase mlp() {
  checks::TrainingCase training = models::mlp();
  training.model = [] {
    return keras::Sequential({layers::Dense(8, {.activation = "tanh", .name = "up"}),
                              layers::Dropout(0.2), layers::Dense(6, {.name = "down"}),
                              layers::Dense(4, {.name = "head"})});
  };
  training.compile = [] {
    keras::CompileOptions options = models::classification();
    options.optimizer = keras::optimizers::Adam(0.01, {.global_clipnorm = 0.1});
    return options;
  };
  return training;
}

const Layouts kMlpLayouts{{"(up|head)/kernel", {"", "model"}}, {"down/kernel", {"model"}}};
const Layouts kTransformerLayouts{{"table/embeddings", {"model"}},
                                  {"(query|key|value)/kernel", {"", "model"}},
                                  {"up/kernel", {"", "model"}},
                                  {"(attention_output|down)/kernel", {"model"}}};

class MeshProcesses : public testing::TestWithParam<std::vector<int>> {};

TEST_P(MeshProcesses, EveryModelTrainsAsOnOneDevice) {
  const std::vector<int>& shape = GetParam();
  harness::in_processes(shape[0] * shape[1], [&](const GroupPtr& group) {
    use_cpu();
    const auto expect_same = [&](const checks::TrainingCase& training, const Layouts& layouts) {
      random::set_seed(1);
      const Strategy strategy = model_parallel_over(group, layouts_on(shape, layouts));
      EXPECT_EQ(strategy.num_replicas_in_sync(), shape[0]);
      const checks::Equivalence result = checks::check_equivalence(training, {strategy});
      EXPECT_TRUE(result.same) << result.text;
    };
    expect_same(mlp(), kMlpLayouts);
    expect_same(models::tied_transformer(), kTransformerLayouts);
    expect_same(models::convnet(), {{"dense.*/kernel", {"model"}}});
    // The penalty of a kernel in parts is that of the whole.
    expect_same(models::masked_outputs(),
                {{"dense.*/kernel", {"", "model"}}, {"first/kernel", {"model"}}});
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, MeshProcesses,
                         testing::Values(std::vector{2, 1}, std::vector{1, 2}, std::vector{2, 2}));

/// What processes tell each other goes through the hosts' memory.
void expect_same_on_gpus(const std::vector<int>& shape, void (*use_gpu)()) {
  harness::in_processes(count_of(shape), [&](const GroupPtr& group) {
    use_gpu();
    const std::vector<std::string> axes = shape.size() == 2
                                              ? std::vector<std::string>{"data", "model"}
                                              : std::vector<std::string>{"data", "stage", "model"};
    const auto expect_same = [&](const checks::TrainingCase& training, const Layouts& layouts) {
      random::set_seed(1);
      const Strategy strategy = model_parallel_over(
          group, layouts_on(shape, layouts, axes, "GPU:0"), {.microbatches = 2});
      EXPECT_EQ(strategy.devices()[0], "/device:GPU:0");
      const checks::Equivalence result = checks::check_equivalence(training, {strategy});
      EXPECT_TRUE(result.same) << result.text;
    };
    expect_same(mlp(), kMlpLayouts);
    expect_same(models::tied_transformer(), kTransformerLayouts);
    devices::reset_devices();
  });
}

TEST(MeshOverProcesses, GpusHavePartsOfTheWeights) {
  expect_same_on_gpus({1, 2}, use_test_gpu);
  expect_same_on_gpus({2, 2}, use_test_gpu);
  expect_same_on_gpus({1, 2}, use_opencl_gpu);
}

TEST(MeshOverProcesses, GpusAreStages) {
  expect_same_on_gpus({1, 2, 1}, use_test_gpu);
  expect_same_on_gpus({2, 2, 1}, use_test_gpu);
  expect_same_on_gpus({1, 2, 1}, use_opencl_gpu);
}

TEST(MeshOverProcesses, GpusAreMembersOfStages) {
  expect_same_on_gpus({1, 2, 2}, use_opencl_gpu);
  expect_same_on_gpus({2, 2, 2}, use_test_gpu);
}

/// Chunks, lists of layers, and micro-batches that processes choose together.
TEST(MeshOverProcesses, StagesHaveTheOptionsOfPipelines) {
  const ModelParallelOptions listed{.layers = {{"table", "attention"}, {"up", "down", "table"}}};
  const ModelParallelOptions in_chunks{
      .schedule = "interleaved",
      .chunks = 2,
      .layers = {{"table"}, {"attention"}, {"up"}, {"down", "table"}}};
  const ModelParallelOptions automatic{.microbatches = PipelineOptions::automatic};
  for (const std::vector<int>& shape : {std::vector{1, 2, 1}, {1, 2, 2}}) {
    harness::in_processes(count_of(shape), [&](const GroupPtr& group) {
      use_cpu();
      for (const ModelParallelOptions& options : {listed, in_chunks, automatic}) {
        random::set_seed(1);
        const Strategy strategy = model_parallel_over(
            group, layouts_on(shape, kTransformerLayouts, {"data", "stage", "model"}), options);
        const checks::Equivalence result =
            checks::check_equivalence(models::tied_transformer(), {strategy});
        EXPECT_TRUE(result.same) << result.text;
      }
    });
  }
}

/// Some weights are in parts along the model's axis, others over all processes.
TEST(MeshOverProcesses, ShardsOfWhatNoLayoutCuts) {
  const Layouts some{{"up/kernel", {"", "model"}}, {"down/kernel", {"model"}}};
  for (const std::vector<int>& shape : {std::vector{2, 1}, {1, 2}, {2, 2}}) {
    harness::in_processes(count_of(shape), [&](const GroupPtr& group) {
      use_cpu();
      for (Shard shard : {Shard::state, Shard::gradients, Shard::variables}) {
        random::set_seed(1);
        const Strategy strategy =
            model_parallel_over(group, layouts_on(shape, some), {.shard = shard});
        const checks::Equivalence result =
            checks::check_equivalence(models::tied_transformer(), {strategy});
        EXPECT_TRUE(result.same) << result.text;
      }
    });
  }
}

/// The model is mlp() with kernels that are worth parts over four processes.
checks::TrainingCase wide_mlp() {
  checks::TrainingCase training = mlp();
  training.model = [] {
    return keras::Sequential({layers::Dense(16, {.activation = "tanh", .name = "up"}),
                              layers::Dropout(0.2), layers::Dense(12, {.name = "down"}),
                              layers::Dense(8, {.activation = "tanh", .name = "wide"}),
                              layers::Dense(4, {.name = "head"})});
  };
  return training;
}

/// What no layout cuts is in parts over the processes of a stage, along the data and the model.
void expect_same_with_shards(const std::vector<int>& shape, const Layouts& layouts,
                             const std::vector<checks::TrainingCase>& cases) {
  harness::in_processes(count_of(shape), [&](const GroupPtr& group) {
    use_cpu();
    for (Shard shard : {Shard::state, Shard::gradients, Shard::variables}) {
      for (const checks::TrainingCase& training : cases) {
        random::set_seed(1);
        const Strategy strategy =
            model_parallel_over(group, layouts_on(shape, layouts, {"data", "stage", "model"}),
                                {.microbatches = 3, .shard = shard});
        EXPECT_EQ(strategy.num_replicas_in_sync(), 3 * shape[0]);
        const checks::Equivalence result = checks::check_equivalence(training, {strategy});
        EXPECT_TRUE(result.same) << static_cast<int>(shard) << ": " << result.text;
      }
    }
  });
}

TEST(MeshOverProcesses, ShardsOfStages) {
  expect_same_with_shards({2, 2, 1}, {},
                          {wide_mlp(), models::tied_transformer(), models::plain_convnet()});
}

TEST(MeshOverProcesses, ShardsOfStagesWithParts) {
  expect_same_with_shards({1, 2, 2}, {}, {wide_mlp()});
  expect_same_with_shards({2, 2, 2}, {{"up/kernel", {"", "model"}}, {"down/kernel", {"model"}}},
                          {models::tied_transformer()});
}

TEST(MeshOverProcesses, ShardsWithAutomaticMicrobatches) {
  harness::in_processes(4, [&](const GroupPtr& group) {
    use_cpu();
    for (const std::vector<int>& shape : {std::vector{2, 2}, {4, 1}}) {
      for (Shard shard : {Shard::state, Shard::variables}) {
        random::set_seed(1);
        const Strategy strategy =
            model_parallel_over(group, layouts_on(shape, {}, {"data", "stage"}),
                                {.microbatches = PipelineOptions::automatic, .shard = shard});
        const checks::Equivalence result = checks::check_equivalence(wide_mlp(), {strategy});
        EXPECT_TRUE(result.same) << static_cast<int>(shard) << ": " << result.text;
      }
    }
  });
}

class StagedMeshProcesses : public testing::TestWithParam<std::vector<int>> {};

/// Each process is a stage, or of a stage the member that has some parts of the weights.
TEST_P(StagedMeshProcesses, EveryModelTrainsAsOnOneDevice) {
  const std::vector<int>& shape = GetParam();
  harness::in_processes(count_of(shape), [&](const GroupPtr& group) {
    use_cpu();
    const auto expect_same = [&](const checks::TrainingCase& training, const Layouts& layouts) {
      random::set_seed(1);
      const Strategy strategy = model_parallel_over(
          group, layouts_on(shape, layouts, {"data", "stage", "model"}), {.microbatches = 3});
      EXPECT_EQ(strategy.num_replicas_in_sync(), 3 * shape[0]);
      const checks::Equivalence result = checks::check_equivalence(training, {strategy});
      EXPECT_TRUE(result.same) << result.text;
    };
    expect_same(mlp(), kMlpLayouts);
    expect_same(models::tied_transformer(), kTransformerLayouts);
    expect_same(models::plain_convnet(), {{"dense.*/kernel", {"model"}}});
    expect_same(models::masked_outputs(),
                {{"dense.*/kernel", {"", "model"}}, {"first/kernel", {"model"}}});
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, StagedMeshProcesses,
                         testing::Values(std::vector{1, 2, 1}, std::vector{2, 2, 1},
                                         std::vector{1, 2, 2}));

/// Two wide layers, by columns and by rows.
struct TwoLayers {
  explicit TwoLayers(const Strategy& by) : strategy(by) {
    const auto scope = strategy.scope();
    random::set_seed(3);
    model = keras::Sequential({layers::Dense(256, {.name = "up", .input_shape = {256}}),
                               layers::Dense(256, {.name = "down"})});
    model.compile({.optimizer = optimizer = keras::optimizers::Adam(0.001), .loss = "mse"});
  }

  double train(int epochs) const {
    return model
        .fit(ones({16, 256}), ones({16, 256}),
             {.batch_size = 8,
              .epochs = epochs,
              .verbose = keras::Verbose::silent,
              .shuffle = false})
        .history.at("loss")
        .back();
  }
  train::Checkpoint checkpoint() const {
    return train::Checkpoint({{"model", model}, {"optimizer", optimizer}});
  }

  Strategy strategy;
  keras::optimizers::Optimizer optimizer = keras::optimizers::SGD(0.01);
  keras::Model model = keras::Sequential();
};

const Layouts kTwoLayouts{{"up/kernel", {"", "model"}}, {"down/kernel", {"model"}}};

/// Weights in parts along an axis, over all devices of a mesh, and over all replicas.
TEST(MeshOverProcesses, AModelLargerThanEachProcessTrainsInParts) {
  constexpr int64_t kWidth = 256;
  constexpr int kPairs = 8;
  constexpr size_t kLimit = size_t{2} * kPairs * kWidth * kWidth * sizeof(float) * 9 / 10;
  const auto losses = [](const Strategy& strategy) {
    const auto scope = strategy.scope();
    random::set_seed(3);
    const keras::Sequential model;
    for (int i = 0; i < kPairs; ++i) {
      model.add(layers::Dense(kWidth, {.activation = "relu", .name = fmt::format("up{}", i)}));
      model.add(layers::Dense(kWidth, {.name = fmt::format("down{}", i)}));
    }
    model.compile({.optimizer = keras::optimizers::SGD(0.01), .loss = "mse"});
    return model
        .fit(ones({16, kWidth}), ones({16, kWidth}),
             {.batch_size = 8, .epochs = 2, .verbose = keras::Verbose::silent})
        .history.at("loss");
  };
  harness::in_processes(4, [&](const GroupPtr& group) {
    use_cpu();
    const std::vector<double> expected = losses(OneDeviceStrategy("/CPU:0"));
    use_cpu(kLimit);
    EXPECT_TRUE(throws<ResourceExhausted>([&] { losses(OneDeviceStrategy("/CPU:0")); },
                                          {"/device:CPU:0", "out of memory"}));
    const Layouts all{{"up.*/kernel", {"", "model"}}, {"down.*/kernel", {"model"}}};
    const std::vector<std::function<Strategy()>> ways{
        [&]() -> Strategy {
          return model_parallel_over(group, layouts_on({1, 4}, all));
        },
        [&]() -> Strategy {
          return model_parallel_over(group, layouts_on({2, 2}, {}), {.shard = Shard::variables});
        },
        [&]() -> Strategy { return multi_worker_strategy(group, {.shard = Shard::variables}); }};
    for (const auto& way : ways) {
      use_cpu(kLimit);
      const std::vector<double> found = losses(way());
      for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4);
    }
  });
}

TEST(MeshOverProcesses, EachKeepsItsPartAndACheckpointIsThatOfOneDevice) {
  harness::in_processes(2, [](const GroupPtr& group) {
    use_cpu();
    const harness::TempFolder own;
    const std::string folder = group->gather_texts("folder", own.path().string())[0];
    const TwoLayers two(model_parallel_over(group, layouts_on({1, 2}, kTwoLayouts)));
    two.train(2);
    Variables held = two.model.weights();
    for (const Variable& slot : two.optimizer.variables()) held.push_back(slot);
    for (const Variable& variable : held) {
      if (variable.shape().rank() != 2) continue;
      size_t bytes = 0;
      for (const auto& part : variable.body()->range.block->components()) bytes += part->bytes();
      EXPECT_EQ(bytes, size_t{256} * 256 * sizeof(float) / 2) << variable.name();
    }
    EXPECT_TRUE(throws<FailedPrecondition>([&] { two.model.weights()[0].value(); },
                                           {"other processes keep parts", "strategy.run"}));
    two.checkpoint().write(folder + "/c");
    const double further = two.train(1);
    const TwoLayers alone{OneDeviceStrategy("/CPU:0")};
    alone.train(1);
    alone.checkpoint().restore(folder + "/c").assert_consumed();
    EXPECT_NEAR(alone.train(1), further, 1e-5);
    two.checkpoint().restore(folder + "/c");
    EXPECT_NEAR(two.train(1), further, 1e-6);
    group->gather_texts("done with the folder", "");
  });
}

constexpr const char* kAxes[] = {"data", "stage", "model"};

ModelParallel over_stages(const GroupPtr& group, const std::vector<int>& shape,
                          const std::string& device = "CPU:0", const Layouts& cut = kTwoLayouts,
                          Shard shard = Shard::nothing) {
  return model_parallel_over(group,
                             layouts_on(shape, cut, {std::begin(kAxes), std::end(kAxes)}, device),
                             {.microbatches = 2, .shard = shard});
}

/// Four processes, of which two are a stage, keep half of its slots, or variables, each. They save
/// together, and the checkpoint is that of one device.
TEST(MeshOverProcesses, ACheckpointOfShardsOfStagesIsThatOfOneDevice) {
  harness::in_processes(4, [](const GroupPtr& group) {
    use_cpu();
    const harness::TempFolder own;
    const std::string folder = group->gather_texts("folder", own.path().string())[0];
    const auto by = [&](Shard shard, const std::vector<int>& shape) {
      return TwoLayers(over_stages(group, shape, "CPU:0", {}, shard));
    };
    for (Shard shard : {Shard::state, Shard::gradients, Shard::variables}) {
      const std::string prefix = fmt::format("{}/{}", folder, static_cast<int>(shard));
      const TwoLayers four = by(shard, {2, 2, 1});
      four.train(2);
      for (const Variable& slot : four.optimizer.variables()) {
        if (slot.shape().rank() != 2) continue;
        size_t bytes = 0;
        for (const auto& part : slot.body()->range.block->components()) bytes += part->bytes();
        EXPECT_EQ(bytes, size_t{256} * 256 * sizeof(float) / 2) << slot.name();
      }
      four.checkpoint().write(prefix);
      const double further = four.train(1);
      four.checkpoint().restore(prefix).assert_consumed();
      EXPECT_NEAR(four.train(1), further, 1e-6);
      const TwoLayers early = by(shard, {2, 2, 1});  // Before anybody knows who keeps what.
      early.checkpoint().restore(prefix);
      EXPECT_NEAR(early.train(1), further, 1e-5);
      const TwoLayers alone{OneDeviceStrategy("/CPU:0")};
      alone.train(1);
      alone.checkpoint().restore(prefix).assert_consumed();
      EXPECT_NEAR(alone.train(1), further, 1e-5);
      for (const TwoLayers& other :
           {by(Shard::variables, {1, 2, 2}), by(Shard::state, {4, 1, 1}),
            by(Shard::gradients, {1, 4, 1}), TwoLayers(over_stages(group, {1, 2, 2}))}) {
        other.train(1);
        other.checkpoint().restore(prefix).assert_consumed();
        EXPECT_NEAR(other.train(1), further, 1e-5) << other.strategy.explain();
      }
    }
    group->gather_texts("done with the folder", "");
  });
}

/// Weights in parts, and those that the processes of one stage keep, are in the memory of GPUs.
TEST(MeshOverProcesses, ACheckpointOfGpusIsThatOfOneDevice) {
  harness::in_processes(4, [](const GroupPtr& group) {
    use_test_gpu();
    const harness::TempFolder own;
    const std::string folder = group->gather_texts("folder", own.path().string())[0];
    for (const std::vector<int>& shape : {std::vector{1, 2, 2}, std::vector{2, 2, 1}}) {
      const TwoLayers four(over_stages(group, shape, "GPU:0"));
      four.train(2);
      four.checkpoint().write(folder + "/c");
      const double further = four.train(1);
      four.checkpoint().restore(folder + "/c");
      EXPECT_NEAR(four.train(1), further, 1e-6);
      const TwoLayers alone{OneDeviceStrategy("/CPU:0")};
      alone.train(1);
      alone.checkpoint().restore(folder + "/c").assert_consumed();
      EXPECT_NEAR(alone.train(1), further, 1e-5);
    }
    group->gather_texts("done with the folder", "");
  });
}

/// Four processes, each with a part of the weights of a stage, save together. They go on on another
/// mesh, as two processes, and each by itself.
TEST(MeshOverProcesses, ACheckpointOfStagesGoesOnOnOtherMeshes) {
  // Processes of this test find its folder in their environment.
  constexpr const char* kFolder = "TANDEM_TEST_CHECKPOINT_FOLDER";
  const bool is_own = getenv(kFolder) == nullptr;
  if (is_own) {
    std::string name = (std::filesystem::temp_directory_path() / "tandem_stages_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    setenv(kFolder, name.c_str(), 0);
  }
  const std::string folder = getenv(kFolder);
  const std::string prefix = folder + "/c";
  harness::in_processes(4, [&](const GroupPtr& group) {
    use_cpu();
    const TwoLayers four(over_stages(group, {1, 2, 2}));
    four.train(2);
    four.checkpoint().write(prefix);
    const double further = four.train(1);
    EXPECT_TRUE(
        std::filesystem::exists(fmt::format("{}.data-{:05}-of-00004", prefix, group->rank())));
    if (group->rank() == 0) std::ofstream(folder + "/loss") << std::setprecision(17) << further;
    four.checkpoint().restore(prefix);
    EXPECT_NEAR(four.train(1), further, 1e-6);
    const TwoLayers other(over_stages(group, {2, 1, 2}));
    other.train(1);
    other.checkpoint().restore(prefix).assert_consumed();
    EXPECT_NEAR(other.train(1), further, 1e-5);
    const TwoLayers alone{OneDeviceStrategy("/CPU:0")};
    alone.train(1);
    alone.checkpoint().restore(prefix).assert_consumed();
    EXPECT_NEAR(alone.train(1), further, 1e-5);
  });
  for (const std::vector<int>& shape : {std::vector{1, 2, 1}, std::vector{1, 1, 2}}) {
    harness::in_processes(2, [&](const GroupPtr& group) {
      use_cpu();
      double further = 0;
      std::ifstream(folder + "/loss") >> further;
      const TwoLayers two(over_stages(group, shape));
      two.train(1);
      two.checkpoint().restore(prefix).assert_consumed();
      EXPECT_NEAR(two.train(1), further, 1e-5);
    });
  }
  if (!is_own) return;
  unsetenv(kFolder);
  std::filesystem::remove_all(folder);
}

void expect_a_dead_member_to_be_named(const std::string& device) {
  const auto ends = harness::ends_of_processes(4, [&](const GroupPtr& group) {
    use_test_gpu();
    const TwoLayers four(over_stages(group, {1, 2, 2}, device));
    // It dies in the middle of a run of the others.
    const auto die = [&](keras::TrainingRun&, int64_t step) {
      if (group->rank() == 3 && step == 1) _exit(7);
    };
    try {
      four.model.fit(ones({16, 256}), ones({16, 256}),
                     {.batch_size = 4,
                      .epochs = 100000,
                      .verbose = keras::Verbose::silent,
                      .callbacks = {keras::callbacks::LambdaCallback({.on_batch_end = die})}});
    } catch (const Error& error) {
      std::printf("%s: %s\n", error.kind(), error.what());
    }
  });
  // Who hears of the end of one that had heard of it first names that one.
  int heard = 0;
  for (size_t rank = 0; rank < ends.size(); ++rank) {
    if (rank == 3) continue;
    const std::string& output = ends[rank].output;
    EXPECT_NE(output.find("Unavailable: "), std::string::npos) << output;
    EXPECT_NE(output.find("stage 1 is on rank 2 (worker 2, localhost) and rank 3"),
              std::string::npos)
        << output;
    heard += output.find("rank 3 (worker 3, localhost) is gone") != std::string::npos ? 1 : 0;
  }
  if (!ends.empty()) {
    EXPECT_GT(heard, 0);
  }
}

TEST(MeshOverProcesses, ADeadMemberOfAStageIsNamedByTheOthers) {
  expect_a_dead_member_to_be_named("CPU:0");
  expect_a_dead_member_to_be_named("GPU:0");
}

TEST(MeshOverProcesses, AStagedMeshSaysWhoHasWhat) {
  harness::in_processes(4, [](const GroupPtr& group) {
    use_cpu();
    const TwoLayers four(over_stages(group, {1, 2, 2}));
    four.train(1);
    const std::string text = four.strategy.explain();
    for (const char* told :
         {"stage 1 on rank 2 (worker 2, localhost) and rank 3", "schedule 1f1b",
          "mesh: data 1 x stage 2 x model 2", "rank 3 (worker 3, localhost) has shard 0 of 1",
          "part 1 of 2 of the weights", "each process of the stages that use it"}) {
      EXPECT_NE(text.find(told), std::string::npos) << told << " in\n" << text;
    }
    const TwoLayers in_two(over_stages(group, {1, 2, 2}, "CPU:0", {}, Shard::gradients));
    in_two.train(1);
    EXPECT_NE(in_two.strategy.explain().find("over all members of a stage: "), std::string::npos);
    const TwoLayers shards(over_stages(group, {2, 2, 1}, "CPU:0", {}, Shard::state));
    shards.train(1);
    const std::string of_shards = shards.strategy.explain();
    for (const char* told :
         {"stage 1 on rank 1 (worker 1, localhost) and rank 3",
          "rank 3 (worker 3, localhost) has shard 1 of 2 of the batch, part 0 of 1 of the weights, "
          "part 1 of 2 of slots",
          "over all members of a stage: "}) {
      EXPECT_NE(of_shards.find(told), std::string::npos) << told << " in\n" << of_shards;
    }
  });
}

/// The strategy of users, over the library's own transport.
TEST(MeshOverProcesses, ProcessesOfAClusterAreDevicesOfTheMesh) {
  harness::in_processes(2, [](const GroupPtr& group) {
    use_cpu();
    const double expected = TwoLayers{OneDeviceStrategy("/CPU:0")}.train(1);
    use_cpu();
    std::vector<std::string> addresses =
        group->gather_texts("port", std::to_string(harness::free_port()));
    for (std::string& address : addresses) address = "127.0.0.1:" + address;
    const train::ClusterSpec spec({{"worker", addresses}});
    const TwoLayers two(ModelParallel(
        layouts_on({1, 2}, kTwoLayouts),
        {.communication = {.transport = "tcp"},
         .cluster_resolver = std::make_shared<cluster_resolver::SimpleClusterResolver>(
             spec, "worker", group->rank())}));
    EXPECT_NEAR(two.train(1), expected, 1e-5);
    const std::string text = two.strategy.explain();
    EXPECT_NE(text.find(fmt::format("part {} of 2 of the weights", group->rank())),
              std::string::npos)
        << text;
    group->gather_texts("end", "");
  });
}

TEST(MeshOverProcesses, OtherMeshesAreRefused) {
  harness::in_processes(2, [](const GroupPtr& group) {
    use_cpu();
    EXPECT_TRUE(throws<InvalidArgument>(
        [&] {
          model_parallel_over(group, layouts_on({2, 2}, kTwoLayouts));
        },
        {"data 2 x model 2", "2 processes", "one device of each"}));
  });
  harness::in_processes(4, [](const GroupPtr& group) {
    use_cpu();
    EXPECT_TRUE(throws<InvalidArgument>(
        [&] {
          model_parallel_over(group, layouts_on({2, 2}, kTwoLayouts, {"model", "data"}));
        },
        {"'data' comes before 'model'"}));
    EXPECT_TRUE(throws<InvalidArgument>(
        [&] {
          model_parallel_over(group, layouts_on({2, 2}, kTwoLayouts, {"model", "stage"}));
        },
        {"'stage' comes before 'model'"}));
  });
}

}  // namespace
}  // namespace tandem::distribute
