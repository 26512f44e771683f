// Processes whose devices are GPUs, which are stages of a pipeline: what each device holds, the
// result of one device, and checkpoints.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "distribute/mesh_axes.h"
#include "distribute/multi_worker_training.h"
#include "distribute/pipeline_strategy.h"
#include "distribute/strategy_body.h"
#include "graph/program.h"
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

/// By columns and by rows, where a stage has several members.
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

}  // namespace
}  // namespace tandem::distribute::multi_worker
