// Models in checkpoints: those that Keras wrote (tests/fixtures/make_keras_models.py), those with
// former names (tests/fixtures/make_former_names.cpp), and the names that are written.
#include <gtest/gtest.h>

#include "harness/fresh_devices.h"
#include "harness/temp_folder.h"
#include "tandem/tandem.h"
#include "tensor/trackable_body.h"

namespace tandem::train {
namespace {

using keras::Input;
using keras::KerasTensor;
using keras::Layer;
using keras::Model;
using keras::Sequential;
using keras::optimizers::Optimizer;
using namespace keras::layers;
using Names = std::vector<std::string>;

const std::filesystem::path kData = TANDEM_FIXTURES_DIR;

class Subclassed final : public keras::LayerBody {
 public:
  Subclassed()
      : LayerBody("subclassed"),
        hidden_(add_layer("hidden", Dense(4, {.activation = "relu"}))),
        norm_(add_layer("norm", BatchNormalization())),
        tail_(add_layer("tail", Sequential({Dense(2)}))) {}
  void build(const keras::TensorSpecs&) override {
    shift_ = add_weight("shift", {4}, {.initializer = "zeros"});
  }
  Tensors call(const Tensors& inputs, const keras::CallContext& context) override {
    return {tail_(norm_(hidden_(inputs[0], context), context) + shift_.value(), context)};
  }

 private:
  Layer hidden_, norm_, tail_;
  Variable shift_;
};

Model sequential() {
  return Sequential({InputLayer({3}), Dense(4, {.activation = "relu"}), BatchNormalization(),
                     Dropout(0, {.seed = 3}), Dense(2)});
}

Model attention() {
  const KerasTensor x = Input({3}, DType::int32);
  const KerasTensor embedded = Embedding(5, 4)(x);
  const KerasTensor seen = MultiHeadAttention(2, 2)({embedded, embedded});
  const KerasTensor normal = LayerNormalization()(Add()({embedded, seen}));
  return Model({x}, {Dense(2)(Flatten()(normal))});
}

Model nested() {
  const KerasTensor image = Input({4, 4, 1});
  const KerasTensor filtered =
      DepthwiseConv2D(2, {.activation = "tanh"})(Conv2D(2, 2, {.activation = "relu"})(image));
  const Model inner({image}, {BatchNormalization()(filtered)});
  const KerasTensor x = Input({4, 4, 1});
  return Model({x}, {Sequential({inner, Flatten(), Dense(2)})(x)});
}

Model subclassed() { return keras::make_model<Subclassed>(); }

Optimizer adam() { return keras::optimizers::Adam(0.013); }
Optimizer momentum() { return keras::optimizers::SGD(0.013, {.momentum = 0.5}); }
Optimizer rmsprop() { return keras::optimizers::RMSprop(0.013); }

struct Kind {
  const char* name;
  Model (*model)();
  Optimizer (*optimizer)();
  bool both;  ///< The checkpoint names the optimizer beside the model.
  int steps;  ///< The steps between the two predictions.
};

std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }

const Kind kKinds[] = {
    {"sequential", sequential, adam, true, 2},   {"attention", attention, momentum, true, 2},
    {"nested", nested, adam, false, 0},          {"subclassed", subclassed, rmsprop, false, 2},
    {"sequential_2", sequential, adam, true, 2}, {"attention_2", attention, adam, false, 0},
    {"nested_2", nested, adam, false, 0},
};

class KerasModel : public harness::FreshDevices, public testing::WithParamInterface<Kind> {
 protected:
  struct Restored {
    explicit Restored(const Kind& kind) : model(kind.model()), optimizer(kind.optimizer()) {
      model.compile({.optimizer = optimizer, .loss = "mse"});
    }
    Checkpoint checkpoint(bool both) const {
      NamedTrackables objects = {{"model", model}};
      if (both) objects.emplace_back("optimizer", optimizer);
      return Checkpoint(objects);
    }
    Model model;
    Optimizer optimizer;
  };

  std::filesystem::path saved() const {
    return kData / "keras_models" / (std::string(GetParam().name) + "-1");
  }
  Tensor expected(const char* what) const {
    return expected_.at(std::string(GetParam().name) + "/" + what);
  }
  void expect_near(const Tensor& got, const Tensor& wanted, double most) const {
    ASSERT_EQ(got.shape(), wanted.shape());
    EXPECT_LE(reduce_max(abs(got - wanted) / (abs(wanted) + 1.0)).item<float>(), most);
  }

  const NamedTensors expected_ = load_npz(kData / "keras_models" / "expected.npz");
  harness::TempFolder folder_;
};

TEST_P(KerasModel, ComputesAndTrainsAsItDidInKeras) {
  const Restored restored(GetParam());
  const Tensor x = expected("x"), y = expected("y");
  const keras::EvaluateOptions quiet{.verbose = keras::Verbose::silent};
  // Functions that are compiled already see the new weights too.
  restored.model.predict(x);
  restored.model.evaluate(x, y, quiet);
  const CheckpointStatus status = restored.checkpoint(GetParam().both).restore(saved());
  expect_near(restored.model.predict(x), expected("saved"), 1e-5);
  const auto loss = static_cast<float>(restored.model.evaluate(x, y, quiet).at("loss"));
  expect_near(Tensor(loss), reduce_mean(square(expected("saved") - y)), 1e-5);
  for (int i = 0; i < GetParam().steps; ++i) restored.model.train_on_batch({x}, {y});
  status.assert_consumed();
  expect_near(restored.model.predict(x), expected("trained"), 1e-4);
}

TEST_P(KerasModel, IsRestoredBeforeItHasWeights) {
  const Restored restored(GetParam());
  const CheckpointStatus status = restored.checkpoint(GetParam().both).restore(saved());
  expect_near(restored.model.predict(expected("x")), expected("saved"), 1e-5);
  if (GetParam().steps > 0) restored.optimizer.build(restored.model.trainable_weights());
  status.assert_consumed();
}

INSTANTIATE_TEST_SUITE_P(Of, KerasModel, testing::ValuesIn(kKinds),
                         [](const auto& test) { return std::string(test.param.name); });

class KerasCheckpoint : public KerasModel {};

/// Both files are of the same objects. The full value of a rate is ours alone.
TEST_P(KerasCheckpoint, HasTheKeysOfKeras) {
  const Restored trained(GetParam());
  for (int i = 0; i < GetParam().steps; ++i) {
    trained.model.train_on_batch({expected("x")}, {expected("y")});
  }
  const auto path = trained.checkpoint(GetParam().both).save(folder_ / "ckpt");
  Names keys = load_checkpoint(path).keys();
  std::erase_if(keys, [](const std::string& key) { return key.ends_with("/float64"); });
  EXPECT_EQ(keys, load_checkpoint(saved()).keys());
}

INSTANTIATE_TEST_SUITE_P(Of, KerasCheckpoint, testing::ValuesIn({kKinds[0], kKinds[1], kKinds[2]}),
                         [](const auto& test) { return std::string(test.param.name); });

// ---- Names that were written before ----

class FormerNames : public harness::FreshDevices {
 protected:
  static Tensor ramp(const Shape& shape) {
    std::vector<float> values(static_cast<size_t>(shape.count()));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = (static_cast<float>(i * 7 % 11) - 5) / 8;
    }
    return Tensor::from(values, shape);
  }
  static std::vector<float> values(const Tensor& tensor) { return tensor.to_vector<float>(); }

  const std::filesystem::path saved_ = kData / "former_names";
  const NamedTensors expected_ = load_npz(saved_ / "expected.npz");
};

TEST_F(FormerNames, OfASequentialAndItsOptimizerAreRestored) {
  const Sequential model(
      {Dense(4, {.activation = "relu", .input_shape = {3}}), BatchNormalization(), Dense(2)});
  const keras::optimizers::Adam optimizer(0.5);
  model.compile({.optimizer = optimizer, .loss = "mse"});
  const Checkpoint checkpoint({{"model", model}, {"optimizer", optimizer}});
  const CheckpointStatus status = checkpoint.restore(saved_ / "sequential");
  const Tensor x = ramp({6, 3});
  EXPECT_EQ(values(model.predict(x)), values(expected_.at("sequential")));
  EXPECT_EQ(optimizer.learning_rate().value().item<double>(), 0.013);
  model.train_on_batch({x}, {ramp({6, 2})});
  status.assert_consumed();
  EXPECT_EQ(values(model.predict(x)), values(expected_.at("sequential after a step")));
}

TEST_F(FormerNames, OfAFunctionalModelAreRestored) {
  const KerasTensor tokens = Input({4}, DType::int32);
  const KerasTensor embedded = Embedding(5, 4)(tokens);
  const KerasTensor seen = MultiHeadAttention(2, 2)({embedded, embedded});
  const KerasTensor sum = LayerNormalization()(Add()({embedded, seen}));
  const Model model({tokens}, {Sequential({Dense(3)})(sum)});
  Checkpoint({{"model", model}}).restore(saved_ / "functional").assert_consumed();
  EXPECT_EQ(values(model.predict(Tensor::from<int32_t>({0, 1, 2, 3, 4, 3, 2, 1}, {2, 4}))),
            values(expected_.at("functional")));
}

// ---- What a restore gives, and when ----

class RestoredModel : public harness::FreshDevices {
 protected:
  harness::TempFolder folder_;
};

TEST_F(RestoredModel, KeepsWhatItWasGivenAfterwards) {
  const auto make = [] { return Sequential({Dense(1, {.use_bias = false, .input_shape = {1}})}); };
  const Sequential saved = make();
  const keras::optimizers::SGD optimizer(0);
  optimizer.build(saved.weights());
  Checkpoint({{"model", saved}, {"optimizer", optimizer}}).write(folder_ / "c");

  const Sequential model = make();
  const keras::optimizers::SGD rest(0);
  Checkpoint({{"model", model}, {"optimizer", rest}}).restore(folder_ / "c");
  model.set_weights({Tensor::of({{7.f}})});
  rest.apply_gradients({zeros({1, 1})}, model.weights());  // The optimizer sees the weights now.
  EXPECT_EQ(model.get_weights()[0].item<float>(), 7.f);
}

TEST_F(RestoredModel, StartsAnewWithAnotherOptimizer) {
  const Model model = subclassed();
  const CheckpointStatus status =
      Checkpoint({{"model", model}}).restore(kData / "keras_models" / "subclassed-1");
  const keras::optimizers::RMSprop first(0.5), second(0.5);
  model.compile({.optimizer = first, .loss = "mse"});
  EXPECT_EQ(first.learning_rate().value().item<double>(), 0.013f);
  model.compile({.optimizer = second, .loss = "mse"});
  EXPECT_EQ(second.learning_rate().value().item<double>(), 0.5);
}

/// Nodes of Keras's that have no values are not waited for.
TEST_F(RestoredModel, HoldsNoFilesWhenItHasAllItsValues) {
  const Model model = nested();
  Checkpoint({{"model", model}}).restore(kData / "keras_models" / "nested-1");
  for (const Layer& layer : model.layers()) {
    EXPECT_EQ(layer.trackable_body()->waiting, nullptr) << layer.name();
  }
  EXPECT_EQ(model.trackable_body()->waiting, nullptr);
}

/// A checkpoint of the model alone does not have it, nor miss it.
TEST_F(RestoredModel, OfACompiledOneHasNoOptimizer) {
  const auto make = [] { return Sequential({Dense(1, {.input_shape = {1}})}); };
  const Sequential saved = make();
  saved.compile({.optimizer = "adam", .loss = "mse"});
  saved.train_on_batch({ones({2, 1})}, {ones({2, 1})});
  const auto path = Checkpoint({{"model", saved}}).save(folder_ / "c");
  Checkpoint({{"model", make()}}).restore(path).assert_consumed();
  Checkpoint({{"model", saved}}).restore(path).assert_consumed();
}

/// Its counter is the checkpoint's alone: a checkpoint that has the model by a name does not have
/// it.
TEST_F(RestoredModel, MayBeTheRootOfAnotherCheckpoint) {
  const Sequential model({Dense(1, {.input_shape = {1}})});
  Checkpoint(model).save(folder_ / "root");
  EXPECT_EQ(load_checkpoint(folder_ / "root-1").keys(),
            (Names{"_CHECKPOINTABLE_OBJECT_GRAPH",
                   "_functional/_operations/1/_kernel/.ATTRIBUTES/VARIABLE_VALUE",
                   "_functional/_operations/1/bias/.ATTRIBUTES/VARIABLE_VALUE",
                   "save_counter/.ATTRIBUTES/VARIABLE_VALUE"}));
  Checkpoint({{"model", model}}).save(folder_ / "named");
  EXPECT_EQ(load_checkpoint(folder_ / "named-1").keys(),
            (Names{"_CHECKPOINTABLE_OBJECT_GRAPH",
                   "model/_functional/_operations/1/_kernel/.ATTRIBUTES/VARIABLE_VALUE",
                   "model/_functional/_operations/1/bias/.ATTRIBUTES/VARIABLE_VALUE",
                   "save_counter/.ATTRIBUTES/VARIABLE_VALUE"}));
}

}  // namespace
}  // namespace tandem::train
