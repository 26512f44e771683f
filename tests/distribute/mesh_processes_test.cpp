// Meshes of one device in each of several processes, over a plain transport and over sockets: the
// result of one device with weights cut over some processes and batches over others, what each
// keeps, checkpoints, and what is refused.
#include <fmt/format.h>

#include "checks/models.h"
#include "device/logical_device.h"
#include "distribute/mesh_axes.h"
#include "distribute/strategy_body.h"
#include "harness/free_port.h"
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

LayoutMap layouts_on(const std::vector<int>& shape, const Layouts& layouts,
                     const std::vector<std::string>& axes = {"data", "model"}) {
  std::vector<std::string> devices;
  for (int task = 0; task < shape[0] * shape[1]; ++task) {
    devices.push_back(fmt::format("/job:worker/task:{}/device:CPU:0", task));
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
                         testing::Values(std::vector{1, 2}, std::vector{2, 2}));

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
        {"'data', comes first"}));
  });
}

}  // namespace
}  // namespace tandem::distribute
