// A layer of one's own, written with the public headers alone, does what the library's layers do.
// docs/add-a-layer.md explains it step by step.
#include <gtest/gtest.h>

#include "harness/fresh_devices.h"
#include "harness/temp_folder.h"
#include "tandem/checks/equivalence.h"
#include "tandem/tandem.h"

namespace tandem::keras {
namespace {

/// Each channel times a factor, which is learnt.
struct ScaleBy : LayerBody {
  explicit ScaleBy(const std::string& name = {}) : LayerBody("scale_by", name) {}

  void build(const TensorSpecs& inputs) override {
    const TensorSpec& x = inputs[0];
    factor =
        add_weight("factor", {x.shape.sizes().back()}, {.initializer = "ones", .dtype = x.dtype});
  }

  Tensors call(const Tensors& inputs, const CallContext&) override {
    return {inputs[0] * factor.value()};
  }

  Variable factor;
};

class OwnLayer : public harness::FreshDevices {};

TEST_F(OwnLayer, MakesItsWeightsForItsFirstInput) {
  const Layer layer = make_layer<ScaleBy>();
  EXPECT_FALSE(layer.built());
  EXPECT_EQ(layer(ones({4, 3})).to_vector<float>(), std::vector<float>(12, 1));
  ASSERT_EQ(layer.weights().size(), 1u);
  EXPECT_EQ(layer.weights()[0].shape(), (Shape{3}));
  EXPECT_EQ(layer.weights()[0].name(), layer.name() + "/factor");
}

TEST_F(OwnLayer, IsPartOfADescribedModelAndOfItsSummary) {
  const KerasTensor x = Input({3});
  const Model model({x}, {layers::Dense(2)(make_layer<ScaleBy>("scaled")(x))});
  EXPECT_EQ(model.count_params(), 3 + (3 * 2 + 2));
  EXPECT_NE(model.summary().find("scaled (ScaleBy)"), std::string::npos) << model.summary();
}

TEST_F(OwnLayer, LearnsInFitAndIsRestoredByItsName) {
  const auto make = [] { return Sequential({make_layer<ScaleBy>(), layers::Dense(1)}); };
  const Sequential model = make();
  const Tensor x = Tensor::of({{1.f, 2.f}, {3.f, -1.f}, {-2.f, 1.f}, {0.f, 4.f}});
  const Tensor y = Tensor::of({{5.f}, {1.f}, {0.f}, {8.f}});
  model.compile({.optimizer = optimizers::SGD(0.05), .loss = "mse"});
  std::ostringstream progress;
  model.fit(x, y, {.epochs = 5, .output = &progress});
  EXPECT_NE(model.get_weights()[0].to_vector<float>(), std::vector<float>(2, 1));

  const harness::TempFolder folder;
  const auto path = train::Checkpoint({{"model", model}}).save(folder / "ckpt");
  const Sequential other = make();
  other(x);
  train::Checkpoint({{"model", other}}).restore(path).assert_consumed();
  EXPECT_EQ(other(x).to_vector<float>(), model(x).to_vector<float>());
}

TEST_F(OwnLayer, TrainsTheSameOnAnyNumberOfReplicas) {
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}, {.threads = 1}});
  checks::TrainingCase training;
  training.model = [] { return Sequential({make_layer<ScaleBy>(), layers::Dense(2)}); };
  training.compile = [] { return CompileOptions{.optimizer = "adam", .loss = "mse"}; };
  training.x = {random_normal({23, 4}, 0, 1, {.dtype = DType::float64, .seed = 1})};
  training.y = {random_normal({23, 2}, 0, 1, {.dtype = DType::float64, .seed = 2})};
  training.batch_size = 8;
  const checks::Equivalence result =
      checks::check_equivalence(training, {distribute::MirroredStrategy()});
  EXPECT_TRUE(result.same) << result.text;
}

}  // namespace
}  // namespace tandem::keras
