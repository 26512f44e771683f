// Pipelines whose stages are in several processes, over a plain transport: the result of one
// device, who keeps which variables, checkpoints, and what goes wrong in a stage.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "checkpoint/process_files.h"
#include "checks/models.h"
#include "device/logical_device.h"
#include "distribute/pipeline_strategy.h"
#include "harness/classifier.h"
#include "harness/socket_group.h"
#include "harness/temp_folder.h"
#include "harness/throws.h"
#include "tandem/checkpoint.h"
#include "tensor/shared_stores.h"

namespace tandem::distribute {
namespace {

using harness::throws;
namespace layers = keras::layers;
namespace models = checks::models;

void use_cpus(int count) {
  devices::reset_devices();
  config::set_logical_cpus(
      std::vector<config::LogicalCpu>(static_cast<size_t>(count), {.threads = 1}));
  random::set_seed(1);
}

/// Norms of gradients are those over all stages.
checks::TrainingCase clipped(checks::TrainingCase training) {
  training.compile = [] {
    keras::CompileOptions options = models::classification();
    options.optimizer = keras::optimizers::Adam(0.01, {.global_clipnorm = 0.1});
    return options;
  };
  return training;
}

struct PipelineCase {
  int processes;
  PipelineOptions options;
};

void PrintTo(const PipelineCase& each, std::ostream* out) {
  *out << each.processes << " processes, " << each.options.stages << " stages";
}

class PipelineProcesses : public testing::TestWithParam<PipelineCase> {};

TEST_P(PipelineProcesses, EveryModelTrainsAsOnOneDevice) {
  const PipelineCase& param = GetParam();
  harness::in_processes(param.processes, [&](const auto& group) {
    use_cpus(param.options.stages * param.options.replicas / param.processes);
    const Strategy strategy = pipeline_strategy(group, param.options);
    for (const auto& training : {models::mlp(), models::plain_convnet(), models::transformer(),
                                 models::masked_outputs(), clipped(models::tied_transformer())}) {
      const checks::Equivalence result = checks::check_equivalence(training, {strategy});
      EXPECT_TRUE(result.same) << result.text;
    }
  });
}

/// Each process has its variables on its first GPU; stages on others have copies of those that they
/// read.
TEST_P(PipelineProcesses, EveryModelTrainsOnGpusAsOnOneDevice) {
  const PipelineCase& param = GetParam();
  harness::in_processes(param.processes, [&](const auto& group) {
    use_cpus(1);
    const int each = param.options.stages * param.options.replicas / param.processes;
    for (int gpu = 0; gpu < each; ++gpu) config::add_test_device();
    const Strategy strategy = pipeline_strategy(group, param.options);
    EXPECT_EQ(strategy.devices()[0], "/device:GPU:0");
    for (const auto& training : {models::mlp(), clipped(models::tied_transformer())}) {
      const checks::Equivalence result = checks::check_equivalence(training, {strategy});
      EXPECT_TRUE(result.same) << result.text;
    }
    devices::reset_devices();
  });
}

INSTANTIATE_TEST_SUITE_P(
    Stages, PipelineProcesses,
    testing::Values(
        PipelineCase{2, {.stages = 2, .microbatches = 3}},
        PipelineCase{2, {.stages = 4, .microbatches = 2, .schedule = "gpipe"}},
        PipelineCase{2, {.stages = 2, .microbatches = 4, .schedule = "interleaved", .chunks = 2}},
        PipelineCase{2, {.stages = 1, .microbatches = 2, .replicas = 2}},
        PipelineCase{4, {.stages = 2, .microbatches = 2, .replicas = 2}}));

/// Processes with memory of different sizes choose together.
TEST(PipelineOverProcesses, AutomaticMicroBatchesAreTheSameEverywhere) {
  constexpr int64_t kRows = 2048;
  const auto trained = [](const Strategy& strategy) {
    const auto scope = strategy.scope();
    random::set_seed(5);
    const keras::Sequential model;
    for (int i = 0; i < 8; ++i) model.add(layers::Dense(64, {.activation = "tanh"}));
    model.add(layers::Dense(1));
    model.compile({.optimizer = keras::optimizers::Adam(0.01), .loss = "mse"});
    const Tensor x = random_uniform({kRows, 4}, -1, 1, {.dtype = DType::float64, .seed = 1});
    model.fit(x, reduce_sum(x, {.axes = std::vector<int>{1}, .keepdims = true}),
              {.batch_size = kRows, .epochs = 2, .verbose = keras::Verbose::silent});
    return model.evaluate(x, zeros({kRows, 1}, DType::float64), {.batch_size = kRows}).at("loss");
  };
  harness::in_processes(2, [&](const auto& group) {
    use_cpus(1);
    const double expected = trained(OneDeviceStrategy("/CPU:0"));
    for (const int limited : {0, 1}) {
      devices::reset_devices();
      const size_t limit = group->rank() == limited ? size_t{4} << 20 : 0;
      config::set_logical_cpus({{.threads = 1, .memory_limit = limit}});
      random::set_seed(1);
      const Strategy strategy =
          pipeline_strategy(group, {.stages = 2, .microbatches = PipelineOptions::automatic});
      EXPECT_NEAR(trained(strategy), expected, 1e-9);
      const int count = strategy.num_replicas_in_sync();
      EXPECT_GT(count, 2);
      const auto counts = group->gather_texts("count", std::to_string(count));
      EXPECT_EQ(counts[0], counts[1]);
    }
  });
}

/// Two wide layers, one on each of two stages.
struct TwoLayers {
  explicit TwoLayers(const Strategy& by) : strategy(by) {
    const auto scope = strategy.scope();
    optimizer = keras::optimizers::Adam(0.01);
    model = keras::Sequential({layers::Dense(64, {.name = "lower", .input_shape = {784}}),
                               layers::Dense(10, {.name = "upper"})});
    model.compile({.optimizer = optimizer,
                   .loss = keras::losses::CategoricalCrossentropy({.from_logits = true})});
  }

  double train(int epochs) const {
    const keras::History history = model.fit(
        harness::features<float>(40), harness::labels<float>(40),
        {.batch_size = 20, .epochs = epochs, .verbose = keras::Verbose::silent, .shuffle = false});
    return history.history.at("loss").back();
  }

  Strategy strategy;
  keras::optimizers::Optimizer optimizer = keras::optimizers::SGD(0.01);
  keras::Model model = keras::Sequential();
};

PipelineOptions by_layers() {
  return {.stages = 2, .microbatches = 2, .layers = {{"lower"}, {"upper"}}};
}

TEST(PipelineOverProcesses, EachKeepsTheVariablesOfItsStagesAlone) {
  harness::in_processes(2, [](const auto& group) {
    use_cpus(1);
    const TwoLayers two(pipeline_strategy(group, by_layers()));
    two.train(1);
    const size_t own = group->rank() == 0 ? 0 : 2;  // The kernel; the bias lies behind it.
    const Variables weights = two.model.weights();
    for (size_t i = 0; i < weights.size(); ++i) {
      const bool is_here = i / 2 * 2 == own;
      EXPECT_EQ(is_kept_elsewhere(weights[i].body()->range), !is_here) << weights[i].name();
      if (is_here) continue;
      EXPECT_TRUE(throws<FailedPrecondition>([&] { weights[i].value(); },
                                             {weights[i].name(), "checkpoint"}));
    }
    size_t slots = 0;
    for (const Variable& slot : two.optimizer.variables()) {
      slots += is_kept_elsewhere(slot.body()->range) ? 1 : 0;
    }
    EXPECT_EQ(slots, 4U);  // Two of each weight of the other stage.
  });
}

/// The bytes of a variable's memory that are there.
size_t resident_bytes(const Variable& variable) {
  const StoreRange& range = variable.body()->range;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto data = reinterpret_cast<uintptr_t>(range.block->components()[0]->data());
  const uintptr_t begin = (data + page - 1) / page * page;
  const uintptr_t end = (data + static_cast<size_t>(range.count) * sizeof(float)) / page * page;
  std::vector<unsigned char> is_there((end - begin) / page);
  if (mincore(reinterpret_cast<void*>(begin), end - begin, is_there.data()) != 0) return 0;
  return page * static_cast<size_t>(std::ranges::count_if(is_there, [](auto c) { return c & 1; }));
}

/// Each process makes the first values of its own layers, with the bits of one device, and never
/// takes memory for the others', or for slots of them.
TEST(PipelineOverProcesses, AModelLargerThanEachProcessIsNeverWhole) {
  constexpr int64_t kWidth = 512;
  constexpr size_t kKernelBytes = size_t{kWidth} * kWidth * sizeof(float);
  struct FourLayers {
    explicit FourLayers(const Strategy& by) : strategy(by) {
      const auto scope = strategy.scope();
      random::set_seed(5);
      optimizer = keras::optimizers::Adam(0.001);
      std::vector<keras::Layer> list;
      for (int i = 0; i < 4; ++i) {
        list.push_back(layers::Dense(kWidth, {.activation = "relu", .input_shape = {kWidth}}));
      }
      model = keras::Sequential(list);
      model.compile({.optimizer = optimizer, .loss = "mse"});
    }
    std::vector<double> train() const {
      return model
          .fit(ones({8, kWidth}), ones({8, kWidth}),
               {.batch_size = 4, .epochs = 2, .verbose = keras::Verbose::silent})
          .history.at("loss");
    }
    Variables kernels() const {
      Variables found;
      for (const Variable& weight : model.weights()) {
        if (weight.shape().rank() == 2) found.push_back(weight);
      }
      return found;
    }
    Strategy strategy;
    keras::optimizers::Optimizer optimizer = keras::optimizers::SGD(0.01);
    keras::Model model = keras::Sequential();
  };
  harness::in_processes(2, [](const auto& group) {
    use_cpus(1);
    const std::vector<double> expected = FourLayers{OneDeviceStrategy("/cpu:0")}.train();
    use_cpus(1);
    const FourLayers four(pipeline_strategy(group, {.stages = 2, .microbatches = 2}));
    for (const Variable& kernel : four.kernels()) EXPECT_EQ(resident_bytes(kernel), 0U);
    const std::vector<double> found = four.train();
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5);
    size_t kernels = 0, slots = 0;
    for (const Variable& kernel : four.kernels()) kernels += resident_bytes(kernel);
    for (const Variable& slot : four.optimizer.variables()) {
      if (slot.shape().rank() == 2) slots += resident_bytes(slot);
    }
    EXPECT_GT(kernels, kKernelBytes / 2);
    EXPECT_LE(kernels, 3 * kKernelBytes) << "of 4";
    EXPECT_LE(slots, 6 * kKernelBytes) << "of 8";
  });
}

TEST(PipelineOverProcesses, ACheckpointHasAllAndGoesOnInOneProcess) {
  harness::in_processes(2, [](const auto& group) {
    use_cpus(1);
    const harness::TempFolder folder;
    const std::string prefix =
        group->gather_texts("folder", (folder.path() / "pipeline").string())[0];
    const TwoLayers two(pipeline_strategy(group, by_layers()));
    two.train(2);
    const train::Checkpoint checkpoint({{"model", two.model}, {"optimizer", two.optimizer}});
    const std::string saved = checkpoint.save(prefix).string();
    const double further = two.train(1);
    if (group->rank() == 0) {
      const TwoLayers alone{OneDeviceStrategy("/cpu:0")};
      // The processes' group is the pipeline's: this restores for itself.
      checkpoint::set_processes(nullptr);
      train::Checkpoint({{"model", alone.model}, {"optimizer", alone.optimizer}}).restore(saved);
      EXPECT_NEAR(alone.train(1), further, 1e-4);
      checkpoint::set_processes(group);
    }
    group->gather_texts("end", "");
  });
}

TEST(PipelineOverProcesses, WhatGoesWrongInAStageIsToldToAll) {
  harness::in_processes(2, [](const auto& group) {
    use_cpus(1);
    const PipelineStrategy strategy = pipeline_strategy(group, {.stages = 2, .microbatches = 2});
    const auto scope = strategy.scope();
    const Variable w(fill({2, 2}, 0.5));
    const Variable v(fill({2, 2}, 0.5));
    const auto f = function([&](const Tensor& x, const Tensor& row) {
      return gather(matmul(matmul(x, w.value()), v.value()), row, 1);
    });
    std::string told;
    try {
      strategy.run(f, strategy.split(ones({4, 2})), PerReplica(Tensor::from({int32_t{7}}, {1})));
    } catch (const Error& error) {
      told = error.what();
    }
    EXPECT_NE(told.find("gather"), std::string::npos) << told;
  });
}

TEST(PipelineOverProcesses, ADeadStageIsNamedByTheOthers) {
  const auto ends = harness::ends_of_processes(3, [](const auto& group) {
    use_cpus(1);
    const TwoLayers two(pipeline_strategy(group, {.stages = 3, .microbatches = 3}));
    two.train(1);
    group->gather_texts("about to die", "");
    if (group->rank() == 1) _exit(7);
    const auto death = std::chrono::steady_clock::now();
    try {
      two.train(100000);
    } catch (const Error& error) {
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - death;
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

/// Processes meet before they run a function for the first time.
TEST(PipelineOverProcesses, ADeadStageIsNamedBeforeTheFirstRun) {
  const auto ends = harness::ends_of_processes(3, [](const auto& group) {
    use_cpus(1);
    const TwoLayers two(pipeline_strategy(group, {.stages = 3, .microbatches = 3}));
    group->gather_texts("about to die", "");
    if (group->rank() == 1) _exit(7);
    try {
      two.model.predict(harness::features<float>(6));
    } catch (const Error& error) {
      std::printf("%s: %s\n", error.kind(), error.what());
    }
  });
  for (size_t rank = 0; rank < ends.size(); ++rank) {
    const bool is_named =
        ends[rank].output.find("rank 1 (worker 1, localhost) is gone; stage 0 is on rank 0") !=
        std::string::npos;
    EXPECT_EQ(is_named, rank != 1) << ends[rank].output;
  }
}

TEST(PipelineOverProcesses, StagesAreDealtEvenly) {
  harness::in_processes(2, [](const auto& group) {
    use_cpus(1);
    EXPECT_TRUE(
        throws<InvalidArgument>([&] { pipeline_strategy(group, {.stages = 3, .microbatches = 3}); },
                                {"1 pipelines of 3 stages on 2 processes"}));
  });
}

}  // namespace
}  // namespace tandem::distribute
