// Meshes and layouts: what fits, what is refused and how, what a strategy of a mesh tells.
#include <gtest/gtest.h>

#include "harness/fresh_devices.h"
#include "harness/throws.h"
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
