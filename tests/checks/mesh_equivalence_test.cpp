/// The result of one device on meshes, with weights cut over some devices and batches over others:
/// layers by columns and by rows, attention by heads, tables and losses by vocabulary. On logical
/// CPUs, and on GPUs, which are OpenCL's.
#include "checks/models.h"
#include "harness/fresh_devices.h"
#include "harness/opencl.h"
#include "tandem/keras/distribution.h"

namespace tandem::checks {
namespace {

namespace layers = keras::layers;
using distribute::DeviceMesh;
using distribute::LayoutMap;
using distribute::ModelParallel;
using distribute::ModelParallelOptions;
using distribute::PipelineOptions;
using distribute::Shard;
using distribute::Strategy;
using distribute::TensorLayout;
using keras::CompileOptions;

using Layouts = std::vector<std::pair<std::string, TensorLayout>>;

class MeshEquivalenceTest : public harness::FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    config::set_logical_cpus({{.threads = 1}, {.threads = 1}, {.threads = 1}, {.threads = 1}});
  }

  static Strategy on(const DeviceMesh& mesh, const Layouts& layouts,
                     const ModelParallelOptions& options = {}) {
    LayoutMap map(mesh);
    for (const auto& [key, layout] : layouts) map[key] = layout;
    return ModelParallel(map, options);
  }

  /// So many logical GPUs of each of the two, all with memories of their own.
  static void use_logical_gpus(size_t of_each) {
    restart();
    harness::use_opencl();
    for (const config::PhysicalDevice& gpu : config::list_physical_devices("GPU")) {
      config::set_logical_device_configuration(gpu, std::vector<config::LogicalDeviceConfiguration>(
                                                        of_each, {.memory_limit = 64 << 20}));
    }
  }

  static void expect_same_on_gpus(const TrainingCase& training, const Layouts& layouts) {
    restart();
    harness::use_opencl();
    const Equivalence result = check_equivalence(
        training,
        {on({{2, 1}, {"data", "model"}}, layouts), on({{1, 2}, {"data", "model"}}, layouts)});
    EXPECT_TRUE(result.same) << result.text;
  }

  static void expect_same_on_four_gpus(const TrainingCase& training, const Layouts& layouts,
                                       const std::vector<Shard>& shards = {Shard::nothing}) {
    use_logical_gpus(2);
    std::vector<Strategy> strategies;
    for (Shard shard : shards) {
      strategies.push_back(on({{2, 2}, {"data", "model"}}, layouts, {.shard = shard}));
    }
    const Equivalence result = check_equivalence(training, strategies);
    EXPECT_TRUE(result.same) << result.text;
  }

  static void expect_same(const TrainingCase& training, const Layouts& layouts) {
    const Equivalence result = check_equivalence(
        training,
        {on({{2, 1}, {"data", "model"}}, layouts), on({{1, 2}, {"data", "model"}}, layouts),
         on({{2, 2}, {"data", "model"}}, layouts), on({{2, 2}, {"model", "data"}}, layouts)});
    EXPECT_TRUE(result.same) << result.text;
  }
};

/// By columns, with dropout of parts, by rows, and by columns again into a loss by classes. Norms
/// of gradients are those of whole kernels.
TrainingCase mlp() {
  TrainingCase training = models::mlp();
  training.model = [] {
    return keras::Sequential({layers::Dense(8, {.activation = "tanh", .name = "up"}),
                              layers::Dropout(0.2), layers::Dense(6, {.name = "down"}),
                              layers::Dense(4, {.name = "head"})});
  };
  training.compile = [] {
    CompileOptions options = models::classification();
    options.optimizer = keras::optimizers::Adam(0.01, {.global_clipnorm = 0.1});
    return options;
  };
  return training;
}

const Layouts kMlpLayouts{{"(up|head)/kernel", {"", "model"}}, {"down/kernel", {"model"}}};

TEST_F(MeshEquivalenceTest, Mlp) { expect_same(mlp(), kMlpLayouts); }
TEST_F(MeshEquivalenceTest, MlpOnGpus) { expect_same_on_gpus(mlp(), kMlpLayouts); }
TEST_F(MeshEquivalenceTest, MlpOnFourGpus) { expect_same_on_four_gpus(mlp(), kMlpLayouts); }

const Layouts kTransformerLayouts{{"table/embeddings", {"model"}},
                                  {"(query|key|value)/kernel", {"", "model"}},
                                  {"up/kernel", {"", "model"}},
                                  {"(attention_output|down)/kernel", {"model"}}};

TEST_F(MeshEquivalenceTest, TransformerWithTiedEmbeddings) {
  expect_same(models::tied_transformer(), kTransformerLayouts);
}
TEST_F(MeshEquivalenceTest, TransformerWithTiedEmbeddingsOnGpus) {
  expect_same_on_gpus(models::tied_transformer(), kTransformerLayouts);
}
TEST_F(MeshEquivalenceTest, TransformerWithTiedEmbeddingsOnFourGpus) {
  // Kernels of the others are too small to be worth parts.
  expect_same_on_four_gpus(models::tied_transformer(), {{"table/embeddings", {"model"}}},
                           {Shard::variables});
  expect_same_on_four_gpus(models::tied_transformer(), kTransformerLayouts);
}

/// Batches, layers and weights are cut at the same time.
TEST_F(MeshEquivalenceTest, StagesOfATransformer) {
  restart();
  config::set_logical_cpus(std::vector<config::LogicalCpu>(8, {.threads = 1}));
  const auto on_mesh = [](const std::vector<int>& shape) {
    return on({shape, {"data", "stage", "model"}}, kTransformerLayouts);
  };
  for (const TrainingCase& training : {models::tied_transformer(), models::masked_outputs()}) {
    const Equivalence result = check_equivalence(
        training, {on_mesh({1, 2, 1}), on_mesh({2, 2, 1}), on_mesh({1, 2, 2}), on_mesh({2, 2, 2})});
    EXPECT_TRUE(result.same) << result.text;
  }
  // Norms are those of whole kernels, of which each device has a part.
  const Equivalence result =
      check_equivalence(mlp(), {on({{2, 2, 2}, {"data", "stage", "model"}}, kMlpLayouts)});
  EXPECT_TRUE(result.same) << result.text;
}

TEST_F(MeshEquivalenceTest, StagesOfAConvnet) {
  restart();
  config::set_logical_cpus(std::vector<config::LogicalCpu>(8, {.threads = 1}));
  const auto on_mesh = [](const std::vector<int>& shape) {
    return on({shape, {"data", "stage", "model"}}, {{"dense.*/kernel", {"model"}}});
  };
  const Equivalence result = check_equivalence(
      models::plain_convnet(),
      {on_mesh({1, 2, 1}), on_mesh({2, 2, 1}), on_mesh({1, 2, 2}), on_mesh({2, 2, 2})});
  EXPECT_TRUE(result.same) << result.text;
}

/// Each stage has several chunks of the model, which lists of layers may name. A table that is the
/// head, too, is listed twice.
TEST_F(MeshEquivalenceTest, ChunksAndListsOfLayers) {
  restart();
  config::set_logical_cpus(std::vector<config::LogicalCpu>(8, {.threads = 1}));
  const auto on_mesh = [](const std::vector<int>& shape, const ModelParallelOptions& options) {
    return on({shape, {"data", "stage", "model"}}, kTransformerLayouts, options);
  };
  const ModelParallelOptions listed{.layers = {{"table", "attention"}, {"up", "down", "table"}}};
  const ModelParallelOptions in_chunks{.schedule = "interleaved", .chunks = 2};
  ModelParallelOptions listed_chunks = in_chunks;
  listed_chunks.layers = {{"table"}, {"attention"}, {"up"}, {"down", "table"}};
  const Equivalence result = check_equivalence(
      models::tied_transformer(),
      {on_mesh({1, 2, 2}, listed), on_mesh({2, 2, 1}, in_chunks), on_mesh({2, 2, 2}, in_chunks),
       on_mesh({1, 2, 1}, listed_chunks), on_mesh({2, 2, 2}, listed_chunks)});
  EXPECT_TRUE(result.same) << result.text;
}

/// Some weights are in parts along an axis of theirs, others over all devices of the mesh.
TEST_F(MeshEquivalenceTest, ShardsOfWhatNoLayoutCuts) {
  const Layouts some{{"up/kernel", {"", "model"}}, {"down/kernel", {"model"}}};
  for (const TrainingCase& training : {models::tied_transformer(), models::convnet()}) {
    std::vector<Strategy> strategies;
    for (Shard shard : {Shard::state, Shard::gradients, Shard::variables}) {
      for (const std::vector<int>& shape : {std::vector{2, 1}, {1, 2}, {2, 2}}) {
        strategies.push_back(on({shape, {"data", "model"}}, some, {.shard = shard}));
      }
    }
    strategies.push_back(on({{2, 2}, {"model", "data"}}, some, {.shard = Shard::variables}));
    const Equivalence result = check_equivalence(training, strategies);
    EXPECT_TRUE(result.same) << result.text;
  }
}

/// The model is mlp() with kernels that are worth parts over four devices.
TrainingCase wide_mlp() {
  TrainingCase training = mlp();
  training.model = [] {
    return keras::Sequential({layers::Dense(16, {.activation = "tanh", .name = "up"}),
                              layers::Dropout(0.2), layers::Dense(12, {.name = "down"}),
                              layers::Dense(8, {.activation = "tanh", .name = "wide"}),
                              layers::Dense(4, {.name = "head"})});
  };
  return training;
}

class ShardsOfStages : public MeshEquivalenceTest {
 protected:
  static constexpr Shard kAll[] = {Shard::state, Shard::gradients, Shard::variables};

  void SetUp() override {
    MeshEquivalenceTest::SetUp();
    restart();
    config::set_logical_cpus(std::vector<config::LogicalCpu>(8, {.threads = 1}));
  }

  static void expect_same(const TrainingCase& training, const Layouts& layouts,
                          const std::vector<std::vector<int>>& shapes,
                          const ModelParallelOptions& options = {}) {
    std::vector<Strategy> strategies;
    for (const Shard shard : kAll) {
      for (const std::vector<int>& shape : shapes) {
        ModelParallelOptions own = options;
        own.shard = shard;
        strategies.push_back(on({shape, {"data", "stage", "model"}}, layouts, own));
      }
    }
    const Equivalence result = check_equivalence(training, strategies);
    EXPECT_TRUE(result.same) << result.text;
  }
};

/// Norms of gradients are those over all stages and parts.
TEST_F(ShardsOfStages, Mlp) {
  expect_same(wide_mlp(), {}, {{2, 2, 1}, {1, 2, 2}, {4, 2, 1}});
  expect_same(wide_mlp(), {{"(up|head)/kernel", {"", "model"}}}, {{2, 2, 2}});
}

TEST_F(ShardsOfStages, TransformerWithTiedEmbeddings) {
  expect_same(models::tied_transformer(), {}, {{2, 2, 1}, {2, 2, 2}});
  expect_same(models::tied_transformer(),
              {{"up/kernel", {"", "model"}}, {"down/kernel", {"model"}}}, {{2, 2, 2}});
}

/// Moving statistics are those of the whole batch.
TEST_F(ShardsOfStages, Convnet) {
  expect_same(models::plain_convnet(), {{"dense.*/kernel", {"model"}}}, {{2, 2, 1}, {2, 2, 2}});
}

TEST_F(ShardsOfStages, MaskedOutputsAndARegularizer) {
  expect_same(models::masked_outputs(), {{"first/kernel", {"model"}}}, {{2, 2, 2}});
}

TEST_F(ShardsOfStages, GradientsThatAccumulateAndBatchesOfFewRows) {
  TrainingCase training = wide_mlp();
  training.compile = [] {
    CompileOptions options = models::classification();
    options.optimizer = keras::optimizers::SGD(
        0.1, {.momentum = 0.9, .clipnorm = 0.05, .gradient_accumulation_steps = 2});
    return options;
  };
  for (int64_t batch : {12, 3, 1}) {
    training.batch_size = batch;
    training.epochs = 1;
    expect_same(training, {}, {{2, 2, 1}});
  }
}

/// A constraint reads what was updated in parts, and a rule of one's own sees whole values. What
/// it clips by is a norm over parts and whole weights.
TEST_F(ShardsOfStages, ConstraintsAndRulesOfOnesOwn) {
  TrainingCase training = wide_mlp();
  training.model = [] {
    const auto constraint = keras::constraints::max_norm(0.6);
    return keras::Sequential(
        {layers::Dense(16, {.activation = "tanh", .kernel_constraint = constraint, .name = "up"}),
         layers::Dense(12, {.kernel_constraint = constraint, .name = "down"}),
         layers::Dense(4, {.name = "head"})});
  };
  expect_same(training, {{"up/kernel", {"", "model"}}}, {{2, 2, 1}, {2, 2, 2}});
  training.compile = [] {
    const auto with_momentum = [](const keras::optimizers::VariableStep& at) {
      const Tensor momentum = at.slots[0] * 0.9 + at.gradient;
      return keras::optimizers::VariableUpdate{at.value - at.rate * momentum, {momentum}};
    };
    CompileOptions options = models::classification();
    options.optimizer = keras::optimizers::Custom(
        0.01, {.slots = {{.name = "momentum"}}, .update = with_momentum}, {.global_clipnorm = 0.1});
    return options;
  };
  expect_same(training, {{"up/kernel", {"", "model"}}}, {{2, 2, 1}, {2, 2, 2}});
}

/// What a branch or a loop uses is joined around it, as its gradients are summed to parts there.
TEST_F(ShardsOfStages, BranchesAndLoopsUseVariablesInParts) {
  expect_same(models::looped(), {}, {{2, 2, 1}, {1, 2, 2}});
  expect_same(models::looped(), {{"again.*/kernel", {"", "model"}}}, {{2, 2, 2}});
}

TEST_F(ShardsOfStages, ChunksAndListsOfLayers) {
  expect_same(models::tied_transformer(), {}, {{2, 2, 1}},
              {.layers = {{"table", "attention"}, {"up", "down", "table"}}});
  expect_same(models::tied_transformer(), {}, {{2, 2, 1}},
              {.schedule = "interleaved", .chunks = 2});
}

/// There are as many micro-batches as stages at first, and where there are none one.
TEST_F(ShardsOfStages, AutomaticMicrobatches) {
  const ModelParallelOptions automatic{.microbatches = PipelineOptions::automatic};
  expect_same(wide_mlp(), {}, {{2, 2, 1}, {2, 1, 1}, {1, 1, 2}, {2, 1, 2}}, automatic);
  expect_same(models::tied_transformer(), {{"up/kernel", {"", "model"}}}, {{2, 2, 2}, {2, 1, 2}},
              automatic);
}

/// The devices have no memory limits, so there are as many micro-batches as stages, or one.
TEST_F(MeshEquivalenceTest, AutomaticMicrobatches) {
  const ModelParallelOptions automatic{.microbatches = PipelineOptions::automatic};
  const std::vector<Strategy> strategies{
      on({{1, 2, 2}, {"data", "stage", "model"}}, kTransformerLayouts, automatic),
      on({{2, 2, 1}, {"data", "stage", "model"}}, kTransformerLayouts, automatic),
      on({{2, 2}, {"data", "model"}}, kTransformerLayouts, automatic)};
  const Equivalence result = check_equivalence(models::tied_transformer(), strategies);
  EXPECT_TRUE(result.same) << result.text;
  EXPECT_EQ(strategies[0].num_replicas_in_sync(), 2);
  EXPECT_EQ(strategies[1].num_replicas_in_sync(), 4);
  EXPECT_EQ(strategies[2].num_replicas_in_sync(), 2);
}

/// Stages with memories of their own have the layers that were described in their scopes.
TEST_F(MeshEquivalenceTest, StagesOnGpus) {
  restart();
  harness::use_opencl();
  const Strategy strategy = on({{1, 2}, {"data", "stage"}}, {});
  for (const TrainingCase& training :
       {models::mlp_on_two("/GPU:0", "/GPU:1"), models::convnet_on_two("/GPU:0", "/GPU:1"),
        models::tied_transformer_on_two("/GPU:0", "/GPU:1")}) {
    const Equivalence result = check_equivalence(training, {strategy});
    EXPECT_TRUE(result.same) << result.text;
  }
}

/// mlp() in two stages.
TrainingCase mlp_on_two(const std::string& first, const std::string& second) {
  TrainingCase training = mlp();
  training.model = [=]() -> keras::Model {
    const auto x = keras::Input({5}, DType::float64);
    const auto hidden = [&] {
      const auto scope = device(first);
      const auto up = layers::Dense(8, {.activation = "tanh", .name = "up"})(x);
      return layers::Dense(6, {.name = "down"})(layers::Dropout(0.2)(up));
    }();
    const auto scope = device(second);
    return {{x}, {layers::Dense(4, {.name = "head"})(hidden)}};
  };
  return training;
}

/// The stages have two GPUs each, with rows of their own, which keep parts of the state. The table
/// is one stage's, and the other has copies of it.
TEST_F(MeshEquivalenceTest, ShardsOfStagesOnGpus) {
  const auto expect_same_on = [](const std::vector<int>& shape, const Layouts& layouts,
                                 const std::string& second) {
    std::vector<Strategy> strategies;
    for (const Shard shard : {Shard::state, Shard::gradients, Shard::variables}) {
      strategies.push_back(on({shape, {"data", "stage", "model"}}, layouts, {.shard = shard}));
    }
    for (const Equivalence& result :
         {check_equivalence(mlp_on_two("/GPU:0", second), strategies),
          check_equivalence(models::tied_transformer_on_two("/GPU:0", second), strategies)}) {
      EXPECT_TRUE(result.same) << result.text;
    }
  };
  restart();
  config::set_logical_cpus({{.threads = 1}});
  for (int gpu = 0; gpu < 8; ++gpu) config::add_test_device();
  expect_same_on({2, 2, 1}, {}, "/GPU:1");
  expect_same_on({2, 2, 2}, kMlpLayouts, "/GPU:2");
  use_logical_gpus(2);
  expect_same_on({2, 2, 1}, {}, "/GPU:1");
}

/// Each stage is two GPUs, which have parts of its weights. The table is one stage's, in parts, of
/// which the other one has copies.
TEST_F(MeshEquivalenceTest, StagesOfSeveralGpus) {
  const auto expect_same_on_stages = [](const std::vector<int>& shape) {
    const auto on_stages = [&](const Layouts& layouts) {
      return on({shape, {"data", "stage", "model"}}, layouts);
    };
    for (const Equivalence& result :
         {check_equivalence(mlp_on_two("/GPU:0", "/GPU:2"), {on_stages(kMlpLayouts)}),
          check_equivalence(models::tied_transformer_on_two("/GPU:0", "/GPU:2"),
                            {on_stages(kTransformerLayouts)})}) {
      EXPECT_TRUE(result.same) << result.text;
    }
  };
  use_logical_gpus(2);
  expect_same_on_stages({1, 2, 2});
  restart();
  config::set_logical_cpus({{.threads = 1}});
  for (int gpu = 0; gpu < 8; ++gpu) config::add_test_device();
  expect_same_on_stages({1, 2, 2});
  expect_same_on_stages({2, 2, 2});
}

/// Lists of layers say what scopes do, and automatic micro-batches go through members without
/// stages, too.
TEST_F(MeshEquivalenceTest, SeveralGpusTakeTheOptionsOfPipelines) {
  restart();
  config::set_logical_cpus({{.threads = 1}});
  for (int gpu = 0; gpu < 4; ++gpu) config::add_test_device();
  const Equivalence result =
      check_equivalence(models::tied_transformer(),
                        {on({{1, 2, 2}, {"data", "stage", "model"}}, kTransformerLayouts,
                            {.layers = {{"table", "attention"}, {"up", "down", "table"}}}),
                         on({{2, 2}, {"data", "model"}}, kTransformerLayouts,
                            {.microbatches = distribute::PipelineOptions::automatic})});
  EXPECT_TRUE(result.same) << result.text;
}

/// Statistics over the batch, in which several replicas have each row.
TEST_F(MeshEquivalenceTest, Convnet) {
  expect_same(models::convnet(), {{"dense.*/kernel", {"model"}}});
}
TEST_F(MeshEquivalenceTest, ConvnetOnGpus) {
  expect_same_on_gpus(models::convnet(), {{"dense.*/kernel", {"model"}}});
}

TEST_F(MeshEquivalenceTest, ConvnetOnFourGpus) {
  expect_same_on_four_gpus(models::convnet(), {{"dense.*/kernel", {"model"}}});
}

/// Sums of weights and penalties count each row once, too.
TEST_F(MeshEquivalenceTest, MaskedOutputsAndARegularizer) {
  expect_same(models::masked_outputs(),
              {{"first/kernel", {"model"}}, {"second/kernel", {"", "model"}}});
}

/// A state that is a sum counts each row once, too.
TEST_F(MeshEquivalenceTest, MetricsWithStates) {
  TrainingCase training = mlp();
  training.compile = [] {
    const auto delta = [](const Tensor&, const Tensor& y, const Tensor&) {
      return cast(stack({reduce_sum(ones_like(y)), reduce_sum(square(y))}), DType::float64);
    };
    const auto value = [](const Tensor& state) { return reduce_sum(state); };
    CompileOptions options = models::classification();
    options.metrics = {"accuracy",
                       keras::Metric("sums", keras::Metric::Stateful{
                                                 .shape = {2}, .delta = delta, .value = value})};
    return options;
  };
  expect_same(training, kMlpLayouts);
}

/// The pipelines side by side have copies of the variables, which loops use.
TEST_F(MeshEquivalenceTest, LoopsInPipelinesOfGpus) {
  restart();
  config::set_logical_cpus({{.threads = 1}});
  for (int gpu = 0; gpu < 4; ++gpu) config::add_test_device();
  const Equivalence result =
      check_equivalence(models::looped(), {on({{2, 2}, {"data", "stage"}}, {})});
  EXPECT_TRUE(result.same) << result.text;
}

TEST_F(MeshEquivalenceTest, BatchesThatDivideAndThatDoNot) {
  for (int64_t batch : {12, 3, 1}) {
    TrainingCase training = mlp();
    training.batch_size = batch;
    training.epochs = 1;
    expect_same(training, kMlpLayouts);
  }
}

}  // namespace
}  // namespace tandem::checks
