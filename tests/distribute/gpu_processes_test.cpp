// Processes whose devices are GPUs, which keep parts of a model: as stages of a pipeline, and with
// a Shard parts of slots, of sums of gradients and of variables. What each device holds, the result
// of one device, checkpoints, and a rank that dies.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "checks/models.h"
#include "distribute/mesh_axes.h"
#include "distribute/multi_worker_training.h"
#include "distribute/pipeline_strategy.h"
#include "distribute/strategy_body.h"
#include "graph/program.h"
#include "harness/free_port.h"
#include "harness/opencl.h"
#include "harness/throws.h"
#include "tandem/checkpoint.h"

namespace tandem::distribute::multi_worker {
namespace {

using harness::in_processes;
using harness::throws;
namespace layers = keras::layers;
namespace optimizers = keras::optimizers;

/// So many devices of tests, each with so much memory; 0: as much as it takes.
void use_gpus(int count, size_t memory = 0) {
  use_cpus(1);
  for (int i = 0; i < count; ++i) config::add_test_device({.memory = memory});
  random::set_seed(1);
}

/// The first of the machine's OpenCL devices, with so much memory.
void use_opencl(size_t memory = 0) {
  devices::reset_devices();
  harness::use_opencl();
  for (const config::PhysicalDevice& gpu : config::list_physical_devices("GPU")) {
    config::set_logical_device_configuration(gpu, {{.memory_limit = memory}});
  }
  random::set_seed(1);
}

constexpr int64_t kWidth = 256;
constexpr int kLayers = 16;
constexpr size_t kKernelBytes = size_t{kWidth} * kWidth * sizeof(float);
constexpr size_t kAllKernelBytes = kLayers * kKernelBytes;

using OptimizerOf = std::function<optimizers::Optimizer()>;

optimizers::Optimizer sgd() { return optimizers::SGD(0.01); }
optimizers::Optimizer adam() { return optimizers::Adam(0.001); }

/// Equal layers, whose stages nobody has named.
struct Stack {
  explicit Stack(const Strategy& by, const OptimizerOf& optimizer_of = sgd) : strategy(by) {
    const auto scope = strategy.scope();
    optimizer = optimizer_of();
    random::set_seed(3);
    std::vector<keras::Layer> list;
    for (int i = 0; i < kLayers; ++i) {
      const std::string name = fmt::format("{}{}", i % 2 == 0 ? "up" : "down", i / 2);
      list.push_back(
          layers::Dense(kWidth, {.activation = "relu", .name = name, .input_shape = {kWidth}}));
    }
    model = keras::Sequential(list);
    model.compile({.optimizer = optimizer, .loss = "mse"});
  }

  Doubles train(int epochs = 2) const {
    return model
        .fit(ones({16, kWidth}), ones({16, kWidth}),
             {.batch_size = 8,
              .epochs = epochs,
              .verbose = keras::Verbose::silent,
              .shuffle = false})
        .history.at("loss");
  }
  train::Checkpoint checkpoint() const {
    return train::Checkpoint({{"model", model}, {"optimizer", optimizer}});
  }

  Strategy strategy;
  optimizers::Optimizer optimizer = optimizers::SGD(0.01);
  keras::Model model = keras::Sequential();
};

void expect_close(const Doubles& found, const Doubles& wanted, double tolerance = 1e-5) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], tolerance) << i;
}

using StrategyOf = std::function<Strategy(const GroupPtr&)>;

Strategy by_pipeline(const GroupPtr& group) {
  return pipeline_strategy(group, {.stages = group->size(), .microbatches = 4});
}

/// The weights are cut by columns and by rows, where a stage has several members.
Strategy by_mesh(const GroupPtr& group, const std::vector<int>& shape) {
  std::vector<std::string> devices;
  for (int task = 0; task < group->size(); ++task) {
    devices.push_back(fmt::format("/job:worker/task:{}/device:GPU:0", task));
  }
  LayoutMap layouts(DeviceMesh(shape, {"data", "stage", "model"}, devices));
  layouts["up.*/kernel"] = {"", "model"};
  layouts["down.*/kernel"] = {"model"};
  return model_parallel_over(group, layouts, {.microbatches = 4});
}

/// No GPU has memory for the weights, and none ever takes it.
void expect_to_fit(int processes, const StrategyOf& strategy_of,
                   const std::function<void(size_t)>& use) {
  constexpr size_t kLimit = kAllKernelBytes * 9 / 10;
  in_processes(processes, [&](const GroupPtr& group) {
    use_cpus(1);
    const Doubles wanted = Stack(OneDeviceStrategy("/CPU:0")).train();
    use(kLimit);
    EXPECT_TRUE(throws<ResourceExhausted>([] { Stack(OneDeviceStrategy("/GPU:0")).train(); },
                                          {"/device:GPU:0", "out of memory"}));
    use(kLimit);
    const Stack stack(strategy_of(group));
    expect_close(stack.train(), wanted);
    devices::reset_devices();
  });
}

TEST(GpuProcesses, AModelLargerThanEachGpuTrainsInStages) {
  expect_to_fit(4, by_pipeline, [](size_t limit) { use_gpus(1, limit); });
  expect_to_fit(4, by_pipeline, use_opencl);
}

TEST(GpuProcesses, AModelLargerThanEachGpuTrainsOnAMeshWithStages) {
  const auto use = [](size_t limit) { use_gpus(1, limit); };
  expect_to_fit(
      4,
      [](const GroupPtr& group) {
        return by_mesh(group, {1, 4, 1});
      },
      use);
  expect_to_fit(
      4,
      [](const GroupPtr& group) {
        return by_mesh(group, {1, 2, 2});
      },
      use);
}

/// The bytes of the weights and slots of a stage, and no others.
void expect_stages_alone(const Strategy& strategy, size_t stages, int gpus) {
  const Stack stack(strategy, adam);
  const auto held_on = [&](int gpu) {
    return strategy.body().store()->held_bytes()[fmt::format("/device:GPU:{}", gpu)];
  };
  // Biases, counters and sums of metrics are small: those lie together, on all processes.
  constexpr size_t kSmall = size_t{5} << 16;
  constexpr size_t kWeights = kAllKernelBytes;
  for (int gpu = 0; gpu < gpus; ++gpu) EXPECT_LE(held_on(gpu).variables, kSmall);
  stack.train(1);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    const HeldBytes held = held_on(gpu);
    EXPECT_GE(held.variables, kWeights / stages) << gpu;
    EXPECT_LE(held.variables, kWeights / stages + kSmall) << gpu;
    EXPECT_GE(held.slots, 2 * kWeights / stages) << gpu;
    EXPECT_LE(held.slots, 2 * (kWeights / stages + kSmall)) << gpu;
    const std::string said =
        fmt::format("/device:GPU:{} holds {} of variables and {} of slots", gpu,
                    graph::scaled(static_cast<double>(held.variables), "B"),
                    graph::scaled(static_cast<double>(held.slots), "B"));
    EXPECT_NE(strategy.explain().find(said), std::string::npos) << said << strategy.explain();
  }
}

TEST(GpuProcesses, AStageHoldsItsOwnWeightsAndSlotsAlone) {
  in_processes(2, [](const GroupPtr& group) {
    use_gpus(1);
    expect_stages_alone(by_pipeline(group), 2, 1);
    use_gpus(1);
    expect_stages_alone(by_mesh(group, {1, 2, 1}), 2, 1);
    use_gpus(2);
    expect_stages_alone(pipeline_strategy(group, {.stages = 4, .microbatches = 4}), 4, 2);
    devices::reset_devices();
  });
  in_processes(4, [](const GroupPtr& group) {
    use_gpus(1);
    expect_stages_alone(by_mesh(group, {1, 2, 2}), 4, 1);
    devices::reset_devices();
  });
}

/// Saving and restoring, before the first step and behind it, take no memory for others' weights.
TEST(GpuProcesses, ACheckpointOfAModelLargerThanEachGpu) {
  constexpr size_t kLimit = kAllKernelBytes * 9 / 10;
  in_processes(4, [](const GroupPtr& group) {
    use_gpus(1, kLimit);
    const harness::TempFolder own;
    const std::string folder = folder_of_chief(group, own).string();
    Doubles further;
    {
      const Stack stack(by_pipeline(group));
      stack.checkpoint().write(folder + "/first");
      stack.train();
      stack.checkpoint().write(folder + "/c");
      further = stack.train();
      stack.checkpoint().restore(folder + "/c");
      expect_close(stack.train(), further, 1e-7);
    }
    use_gpus(1, kLimit);
    {
      const Stack again(by_pipeline(group));
      again.checkpoint().restore(folder + "/c");
      EXPECT_LT(config::get_memory_info("/GPU:0").current, 2 * kKernelBytes);
      expect_close(again.train(), further, 1e-7);
    }
    {
      use_cpus(1);
      const Stack alone(OneDeviceStrategy("/CPU:0"));
      alone.train(1);
      alone.checkpoint().restore(folder + "/first").assert_consumed();
      alone.train();
      expect_close(alone.train(), further);
    }
    group->gather_texts("done with the folder", "");
    devices::reset_devices();
  });
}

/// What eager code reads and writes before the first step is there in it.
TEST(GpuProcesses, WeightsThatAreReadAndWrittenBeforeTheFirstStep) {
  in_processes(2, [](const GroupPtr& group) {
    use_cpus(1);
    const auto trained = [](const Strategy& strategy) {
      const Stack stack(strategy);
      const Variables weights = stack.model.weights();
      const Tensor doubled = weights[0].value() * 2;
      weights[2].assign(doubled);
      weights[4].assign_add(ones({kWidth, kWidth}) * 0.001);
      return stack.train();
    };
    const Doubles wanted = trained(OneDeviceStrategy("/CPU:0"));
    use_gpus(1);
    expect_close(trained(by_pipeline(group)), wanted);
    devices::reset_devices();
  });
}

std::vector<std::string> names_of(int gpus, bool with_cpu = false) {
  std::vector<std::string> names;
  if (with_cpu) names.emplace_back("/CPU:0");
  for (int i = 0; i < gpus; ++i) names.push_back(fmt::format("/GPU:{}", i));
  return names;
}

/// Layers of which some variables are too small for parts, and some parts are padded.
keras::Sequential small_model(const optimizers::Optimizer& optimizer) {
  random::set_seed(11);
  keras::Sequential model(
      {layers::Dense(
           40, {.activation = "tanh", .kernel_constraint = keras::constraints::max_norm(0.6)}),
       layers::Dense(30), layers::Dense(1)});
  model.compile({.optimizer = optimizer, .loss = "mse"});
  return model;
}

Doubles trained(const optimizers::Optimizer& optimizer) {
  const keras::Sequential model = small_model(optimizer);
  for (int i = 0; i < 5; ++i) model.train_on_batch({features(11)}, {truths(11)});
  return model.predict(features(7)).to_vector<double>();
}

struct Case {
  Shard shard;
  int processes;
  int gpus;
  bool with_cpu = false;
};

void PrintTo(const Case& each, std::ostream* out) {
  *out << "Shard " << static_cast<int>(each.shard) << ", " << each.processes << " processes of "
       << each.gpus << " GPUs" << (each.with_cpu ? " and a CPU" : "");
}

class GpuShards : public testing::TestWithParam<Case> {};

/// Clipping by norms, gradients that accumulate, a constraint that reads what was updated, and a
/// rule of one's own that sees whole values.
TEST_P(GpuShards, GiveTheResultOfOneDevice) {
  const Case param = GetParam();
  in_processes(param.processes, [&](const GroupPtr& group) {
    const auto expect_same = [&](const std::function<optimizers::Optimizer()>& optimizer) {
      use_cpus(1);
      const Doubles wanted = trained(optimizer());
      use_gpus(param.gpus);
      const auto strategy = strategy_of(
          group, {.devices = names_of(param.gpus, param.with_cpu), .shard = param.shard});
      const auto scope = strategy.scope();
      expect_close(trained(optimizer()), wanted, 1e-9);
    };
    expect_same([] { return optimizers::Adam(0.01, {.global_clipnorm = 0.05}); });
    expect_same([] {
      return optimizers::SGD(0.1,
                             {.momentum = 0.9, .clipnorm = 0.05, .gradient_accumulation_steps = 2});
    });
    const auto with_momentum = [](const optimizers::VariableStep& at) {
      const Tensor momentum = at.slots[0] * 0.9 + at.gradient;
      return optimizers::VariableUpdate{at.value - at.rate * momentum, {momentum}};
    };
    expect_same([&] {
      return optimizers::Custom(0.01, {.slots = {{.name = "momentum"}}, .update = with_momentum});
    });
    devices::reset_devices();
  });
}

INSTANTIATE_TEST_SUITE_P(Devices, GpuShards,
                         testing::Values(Case{Shard::state, 2, 1}, Case{Shard::state, 2, 2},
                                         Case{Shard::state, 2, 1, true},
                                         Case{Shard::gradients, 3, 1}, Case{Shard::gradients, 2, 2},
                                         Case{Shard::variables, 2, 1}, Case{Shard::variables, 2, 2},
                                         Case{Shard::variables, 3, 1},
                                         Case{Shard::variables, 2, 1, true}));

/// Shuffling, dropout, batch normalisation, batches of which a process has no row.
TEST(GpuShardProcesses, EverythingThatProcessesMustAgreeOn) {
  for (const Shard shard : {Shard::state, Shard::gradients}) {
    in_processes(2, [shard](const GroupPtr& group) {
      use_cpus(1);
      const Trained alone = train({}, 43, 10, true, 50);
      use_gpus(2);
      expect_near(alone, train(strategy_of(group, {.shard = shard}), 43, 10, true, 50));
      devices::reset_devices();
    });
  }
}

TEST(GpuShardProcesses, OnOpenClDevices) {
  using Shards = std::vector<Shard>;
  for (const auto& [gpus, shards] :
       {std::pair{1, Shards{Shard::variables}},
        {2, Shards{Shard::state, Shard::gradients, Shard::variables}}}) {
    in_processes(2, [gpus = gpus, shards = shards](const GroupPtr& group) {
      for (const Shard shard : shards) {
        use_cpus(1);
        const auto clipped = [] { return optimizers::Adam(0.01, {.global_clipnorm = 0.05}); };
        const Doubles wanted = trained(clipped());
        devices::reset_devices();
        harness::use_opencl();
        const auto strategy = strategy_of(group, {.devices = names_of(gpus), .shard = shard});
        const auto scope = strategy.scope();
        expect_close(trained(clipped()), wanted, 1e-9);
      }
      devices::reset_devices();
    });
  }
}

/// The library's own transport, over which joins go on while devices compute.
TEST(GpuShardProcesses, OverTheTransportOfUsers) {
  in_processes(2, [](const GroupPtr& group) {
    for (const Shard shard : {Shard::gradients, Shard::variables}) {
      use_cpus(1);
      const Doubles wanted = trained(optimizers::Adam(0.01));
      use_gpus(2);
      std::vector<std::string> addresses =
          group->gather_texts("port", std::to_string(harness::free_port()));
      for (std::string& address : addresses) address = "127.0.0.1:" + address;
      const train::ClusterSpec spec({{"worker", addresses}});
      const MultiWorkerMirroredStrategy strategy(
          {.devices = names_of(2),
           .communication = {.transport = "tcp"},
           .shard = shard,
           .cluster_resolver = std::make_shared<cluster_resolver::SimpleClusterResolver>(
               spec, "worker", group->rank())});
      const auto scope = strategy.scope();
      expect_close(trained(optimizers::Adam(0.01)), wanted, 1e-9);
      group->gather_texts("end", "");
    }
    devices::reset_devices();
  });
}

TEST(GpuShardProcesses, EachDeviceHoldsItsParts) {
  for (const int gpus : {1, 2}) {
    in_processes(2, [gpus](const GroupPtr& group) {
      const double part = 0.5 / gpus;
      for (const Shard shard : {Shard::state, Shard::gradients, Shard::variables}) {
        use_gpus(gpus);
        const Stack stack(strategy_of(group, {.devices = names_of(gpus), .shard = shard}), adam);
        stack.train();
        const auto held = stack.strategy.body().store()->held_bytes();
        for (const std::string& name : names_of(gpus)) {
          const HeldBytes own = held.at("/device:" + name.substr(1));
          constexpr double kAll = static_cast<double>(kAllKernelBytes);
          const double variables = shard == Shard::variables ? part : 1;
          EXPECT_NEAR(static_cast<double>(own.slots) / kAll, 2 * part, 0.1) << name;
          EXPECT_NEAR(static_cast<double>(own.variables) / kAll, variables, 0.1) << name;
        }
        const double peak = static_cast<double>(config::get_memory_info("/GPU:0").peak) /
                            static_cast<double>(kAllKernelBytes);
        // Variables, gradients, parts of their sums, and of two slots; parts alone and a few
        // gradients; and of variables parts, too.
        const double most[] = {0, 2.4 + 3 * part, 1.5 + 3 * part, 0.6 + 4 * part};
        EXPECT_LT(peak, most[static_cast<int>(shard)]) << static_cast<int>(shard);
      }
      devices::reset_devices();
    });
  }
}

TEST(GpuShardProcesses, AModelLargerThanEachDeviceTrains) {
  in_processes(4, [](const GroupPtr& group) {
    constexpr size_t kLimit = kAllKernelBytes * 9 / 10;
    use_cpus(1);
    const Doubles wanted = Stack(OneDeviceStrategy("/CPU:0"), sgd).train();
    use_gpus(1, kLimit);
    EXPECT_TRUE(throws<ResourceExhausted>([] { Stack(OneDeviceStrategy("/GPU:0"), sgd).train(); },
                                          {"/device:GPU:0", "out of memory"}));
    use_gpus(1, kLimit);
    const Stack stack(strategy_of(group, {.shard = Shard::variables}), sgd);
    expect_close(stack.train(), wanted, 1e-4);
    devices::reset_devices();
  });
}

/// What no layout cuts is in parts over all GPUs of a mesh.
TEST(GpuShardProcesses, MeshesOfGpus) {
  for (const std::vector<int>& shape : {std::vector{2, 1}, {1, 2}, {2, 2}}) {
    in_processes(shape[0] * shape[1], [&](const GroupPtr& group) {
      for (const Shard shard : {Shard::state, Shard::gradients, Shard::variables}) {
        use_gpus(1);
        random::set_seed(1);
        std::vector<std::string> devices;
        for (int task = 0; task < group->size(); ++task) {
          devices.push_back(fmt::format("/job:worker/task:{}/device:GPU:0", task));
        }
        LayoutMap layouts(DeviceMesh(shape, {"data", "model"}, devices));
        layouts["up/kernel"] = {"", "model"};
        layouts["down/kernel"] = {"model"};
        const Strategy strategy = model_parallel_over(group, layouts, {.shard = shard});
        const checks::Equivalence result =
            checks::check_equivalence(checks::models::tied_transformer(), {strategy});
        EXPECT_TRUE(result.same) << result.text;
      }
      devices::reset_devices();
    });
  }
}

/// The parts are those of the GPUs of a stage, which are in several processes.
TEST(GpuShardProcesses, MeshesOfGpusWithStages) {
  for (const std::vector<int>& shape : {std::vector{2, 2, 1}, {1, 2, 2}, {2, 2, 2}}) {
    in_processes(shape[0] * shape[1] * shape[2], [&](const GroupPtr& group) {
      for (const Shard shard : {Shard::state, Shard::gradients, Shard::variables}) {
        use_gpus(1);
        random::set_seed(1);
        std::vector<std::string> devices;
        for (int task = 0; task < group->size(); ++task) {
          devices.push_back(fmt::format("/job:worker/task:{}/device:GPU:0", task));
        }
        LayoutMap layouts(DeviceMesh(shape, {"data", "stage", "model"}, devices));
        layouts["up/kernel"] = {"", "model"};
        layouts["down/kernel"] = {"model"};
        const Strategy strategy =
            model_parallel_over(group, layouts, {.microbatches = 2, .shard = shard});
        const checks::Equivalence result =
            checks::check_equivalence(checks::models::tied_transformer(), {strategy});
        EXPECT_TRUE(result.same) << result.text;
      }
      devices::reset_devices();
    });
  }
}

/// Saved by two GPUs of two processes each, it goes on with other parts, as on one device.
TEST(GpuShardProcesses, ACheckpointGoesOnOnAnyOtherMesh) {
  for (const Shard shard : {Shard::state, Shard::gradients, Shard::variables}) {
    in_processes(2, [shard](const GroupPtr& group) {
      use_gpus(2);
      const harness::TempFolder own;
      const std::string prefix = (folder_of_chief(group, own) / "c").string();
      Doubles further;
      {
        const Stack four(strategy_of(group, {.shard = shard}), adam);
        four.train();
        four.checkpoint().write(prefix);
        further = four.train();
        four.checkpoint().restore(prefix);
        expect_close(four.train(), further, 1e-6);
      }
      const auto goes_on = [&](const Strategy& strategy) {
        const Stack other(strategy, adam);
        other.train(1);
        other.checkpoint().restore(prefix).assert_consumed();
        expect_close(other.train(), further, 1e-5);
      };
      for (const Shard others : {Shard::nothing, Shard::state, Shard::variables}) {
        goes_on(strategy_of(group, {.devices = {"/GPU:1"}, .shard = others}));
        goes_on(strategy_of(group, {.devices = {"/CPU:0"}, .shard = others}));
      }
      goes_on(MirroredStrategy({"/GPU:0", "/GPU:1"}, {.shard = Shard::variables}));
      goes_on(OneDeviceStrategy("/CPU:0"));
      group->gather_texts("done with the folder", "");
      devices::reset_devices();
    });
  }
}

/// It dies in the middle of a run of the others, which wait for its parts.
TEST(GpuShardProcesses, ADeadRankIsNamedByTheOthers) {
  for (const Shard shard : {Shard::state, Shard::variables}) {
    const auto ends = harness::ends_of_processes(3, [shard](const GroupPtr& group) {
      use_gpus(1);
      const Stack stack(strategy_of(group, {.shard = shard}), adam);
      std::chrono::steady_clock::time_point begin;
      const auto die = [&](keras::TrainingRun&, int64_t step) {
        begin = std::chrono::steady_clock::now();
        if (group->rank() == 1 && step == 1) _exit(7);
      };
      try {
        stack.model.fit(ones({16, kWidth}), ones({16, kWidth}),
                        {.batch_size = 4,
                         .epochs = 100000,
                         .verbose = keras::Verbose::silent,
                         .callbacks = {keras::callbacks::LambdaCallback({.on_batch_end = die})}});
      } catch (const Error& error) {
        const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
        std::printf("%s: %s\nafter %f s\n", error.kind(), error.what(), waited.count());
      }
    });
    // Five seconds on an idle machine, of which others may take a part.
    constexpr double kPatience = 15;
    for (size_t rank = 0; rank < ends.size(); ++rank) {
      if (rank == 1) continue;
      const std::string& output = ends[rank].output;
      EXPECT_NE(output.find("rank 1 (worker 1, localhost) is gone"), std::string::npos) << output;
      const size_t after = output.find("\nafter ");
      ASSERT_NE(after, std::string::npos) << output;
      EXPECT_LT(std::stod(output.substr(after + std::string("\nafter ").size())), kPatience);
    }
  }
}

TEST(GpuShardProcesses, ProcessesHaveAsManyGpusEach) {
  in_processes(2, [](const GroupPtr& group) {
    use_gpus(1 + group->rank());
    EXPECT_THROW(strategy_of(group, {.shard = Shard::state}), Error);
    devices::reset_devices();
  });
}

}  // namespace
}  // namespace tandem::distribute::multi_worker
