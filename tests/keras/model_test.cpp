#include "tandem/keras/model.h"

#include <gtest/gtest.h>

#include <thread>

#include "harness/fresh_devices.h"
#include "harness/temp_folder.h"
#include "harness/throws.h"
#include "tandem/tandem.h"

namespace tandem::keras {
namespace {

using namespace layers;
using harness::throws;
using Names = std::vector<std::string>;

Names names_of(const Layer& model) {
  Names names;
  for (const Layer& layer : model.layers()) names.push_back(layer.name());
  return names;
}

std::vector<float> values(const Tensor& tensor) { return tensor.to_vector<float>(); }

class ModelTest : public harness::FreshDevices {};

TEST_F(ModelTest, ASequenceWithAnInputShapeHasItsWeightsAtOnce) {
  const Sequential model({Dense(10, {.activation = "relu", .input_shape = {784}}), Dense(10)});
  EXPECT_TRUE(model.built());
  EXPECT_EQ(model.count_params(), 7960);
  ASSERT_EQ(model.weights().size(), 4u);
  EXPECT_EQ(model.weights()[2].shape(), (Shape{10, 10}));
  model.add(Dense(3));
  EXPECT_EQ(model.count_params(), 7993);
  EXPECT_EQ(model(zeros({5, 784})).shape(), (Shape{5, 3}));
}

TEST_F(ModelTest, ASequenceWithoutOneIsBuiltByItsFirstCall) {
  const Sequential model({Dense(4), Dense(5)});
  EXPECT_FALSE(model.built());
  EXPECT_TRUE(throws<FailedPrecondition>([&] { model.count_params(); }, {model.name(), "build()"}));
  EXPECT_EQ(model(zeros({2, 3})).shape(), (Shape{2, 5}));
  EXPECT_EQ(model.count_params(), 16 + 25);
  model.add(Flatten());
  EXPECT_EQ(model(zeros({7, 3})).shape(), (Shape{7, 5}));
}

TEST_F(ModelTest, TheFirstCallMayBeWithinATraceAndUnderATape) {
  const Sequential model({Dense(4, {.kernel_initializer = "ones"}), Dense(1)});
  const auto step = function([&](const Tensor& x) {
    GradientTape tape;
    const Tensor loss = reduce_sum(model(x, {.training = true}));
    return tape.gradient(loss, model.trainable_weights())[3];
  });
  EXPECT_EQ(values(step(ones({6, 3}))), (std::vector<float>{6}));
  EXPECT_EQ(values(step(ones({2, 3}))), (std::vector<float>{2}));
  EXPECT_EQ(step.trace_count(), 1);
}

/// The first call makes the weights and the step of `predict`, whichever thread makes it.
TEST_F(ModelTest, SeveralThreadsMayCallAModelFromTheFirstCallOn) {
  const Sequential model({Dense(8, {.activation = "relu"}), Dense(3)});
  std::vector<Tensor> eager(4), predicted(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < eager.size(); ++i) {
    threads.emplace_back([&, i] {
      const Tensor x = fill({2, 5}, static_cast<double>(i));
      for (int call = 0; call < 20; ++call) {
        eager[i] = model(x);
        predicted[i] = model.predict(x);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(model.weights().size(), 4u);
  for (size_t i = 0; i < eager.size(); ++i) {
    const Tensor x = fill({2, 5}, static_cast<double>(i));
    EXPECT_EQ(values(eager[i]), values(model(x)));
    EXPECT_EQ(values(predicted[i]), values(model.predict(x)));
  }
}

TEST_F(ModelTest, AnInputLayerStandsForTheInputShape) {
  const Sequential model({InputLayer({3}), Dense(2, {.name = "only"})});
  EXPECT_EQ(names_of(model), (Names{"only"}));
  EXPECT_EQ(model.count_params(), 8);
  EXPECT_TRUE(throws<InvalidArgument>([&] { model.add(InputLayer({3})); }, {"first"}));
}

TEST_F(ModelTest, TwoInputsTwoOutputsAndAnUnusedInput) {
  const KerasTensor x = Input({3}), y = Input({2}), unused = Input({9});
  const Concatenate both;
  const KerasTensor joined = both({x, y});
  EXPECT_EQ(joined.shape(), (Shape{-1, 5}));
  const Model model({x, y, unused}, {Rescaling(2)(joined), Rescaling(10)(y)});
  const Tensors out =
      model(Tensors{Tensor::of({{1.f, 2.f, 3.f}}), Tensor::of({{4.f, 5.f}}), zeros({1, 9})});
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(values(out[0]), (std::vector<float>{2, 4, 6, 8, 10}));
  EXPECT_EQ(values(out[1]), (std::vector<float>{40, 50}));
}

TEST_F(ModelTest, ASharedLayerHasItsWeightsOnce) {
  const KerasTensor x = Input({2}), y = Input({2});
  const Dense shared(2, {.kernel_initializer = "ones", .name = "shared"});
  const Model model({x, y}, {Add()({shared(x), shared(y)})});
  EXPECT_EQ(model.count_params(), 6);
  GradientTape tape;
  const Tensor out = model(Tensors{Tensor::of({{1.f, 2.f}}), Tensor::of({{3.f, 4.f}})})[0];
  EXPECT_EQ(values(out), (std::vector<float>{10, 10}));
  const Tensors gradients = tape.gradient(out, model.trainable_weights());
  EXPECT_EQ(values(gradients[0]), (std::vector<float>{4, 4, 6, 6}));
  EXPECT_EQ(values(gradients[1]), (std::vector<float>{2, 2}));
}

TEST_F(ModelTest, ModelsNest) {
  const KerasTensor x = Input({4});
  const Model inner({x}, {Dense(3)(x)}, "inner");
  const Sequential middle({inner, Dense(2)}, "middle");
  EXPECT_EQ(middle.count_params(), 15 + 8);
  const KerasTensor y = Input({4});
  const Model outer({y}, {Dense(1)(middle(y))}, "outer");
  EXPECT_EQ(outer.count_params(), 15 + 8 + 3);
  EXPECT_EQ(outer(zeros({2, 4})).shape(), (Shape{2, 1}));
  EXPECT_EQ(Model(inner.body()).layers().size(), 2u);
  outer.get_layer("middle").set_trainable(false);
  EXPECT_EQ(outer.trainable_weights().size(), 2u);
  EXPECT_EQ(outer.non_trainable_weights().size(), 4u);
  EXPECT_FALSE(inner.trainable());
}

TEST_F(ModelTest, PartOfADescriptionIsAModelToo) {
  const KerasTensor x = Input({2});
  const KerasTensor hidden = Rescaling(3)(x);
  const KerasTensor out = Rescaling(0, 1)(Rescaling(5)(hidden));
  EXPECT_EQ(values(Model({x}, {hidden})(ones({1, 2}))), (std::vector<float>{3, 3}));
  const KerasTensor five = Rescaling(5)(hidden);
  EXPECT_EQ(values(Model({hidden}, {five})(ones({1, 2}))), (std::vector<float>{5, 5}));
  EXPECT_EQ(values(Model({x}, {out, hidden})(Tensors{ones({1, 2})})[0]),
            (std::vector<float>{1, 1}));
}

TEST_F(ModelTest, LayersStandInKerasOrder) {
  const KerasTensor x = Input({3}, DType::float32, "x"), z = Input({3}, DType::float32, "z");
  const KerasTensor a = Dense(3, {.name = "a"})(x);
  const KerasTensor b = Dense(3, {.name = "b"})(a);
  const Model model({x, z}, {Add({.name = "sum"})({b, z})});
  EXPECT_EQ(names_of(model), (Names{"x", "a", "b", "z", "sum"}));
  EXPECT_EQ(model.get_layer(2).name(), "b");
  EXPECT_TRUE(model.get_layer("sum") == model.get_layer(4));
  EXPECT_TRUE(throws<NotFound>([&] { model.get_layer("c"); }, {"'c'", "x, a, b, z, sum"}));
  EXPECT_TRUE(throws<NotFound>([&] { model.get_layer(5); }, {"layer 5 of 5"}));
}

struct Residual : LayerBody {
  explicit Residual(int64_t width) : LayerBody("residual") {
    inner = add_layer("inner", Dense(width, {.kernel_initializer = "ones"}));
  }
  void build(const TensorSpecs& inputs) override {
    factor = add_weight("factor", {inputs[0].shape[1]}, {.initializer = "ones"});
  }
  Tensors call(const Tensors& inputs, const CallContext& context) override {
    return {inputs[0] * factor.value() + (*inner)(inputs[0], context)};
  }
  std::optional<Layer> inner;
  Variable factor;
};

TEST_F(ModelTest, OnesOwnBodyIsAModelAndALayer) {
  const Model model = make_model<Residual>(2);
  EXPECT_EQ(values(model(Tensor::of({{1.f, 2.f}}))), (std::vector<float>{4, 5}));
  EXPECT_EQ(model.count_params(), 2 + 6);
  EXPECT_NE(model.summary().find("(Dense)"), std::string::npos);
  const KerasTensor x = Input({2});
  const Model outer({x}, {make_layer<Residual>(2)(model(x))});
  EXPECT_EQ(values(outer(Tensor::of({{1.f, 2.f}}))), (std::vector<float>{13, 14}));
}

TEST_F(ModelTest, WeightsAreReadAndSet) {
  const Sequential model({Dense(1, {.name = "d", .input_shape = {2}})});
  model.set_weights({Tensor::of({{1.f}, {2.f}}), Tensor::of({3.f})});
  EXPECT_EQ(values(model(Tensor::of({{10.f, 100.f}}))), (std::vector<float>{213}));
  EXPECT_EQ(values(model.get_weights()[1]), (std::vector<float>{3}));
  EXPECT_EQ(model.weights()[0].name(), "d/kernel");
  EXPECT_TRUE(throws<InvalidArgument>([&] { model.set_weights({}); }, {"0 tensors", "2 weights"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        model.set_weights({zeros({2, 1}), zeros({2})});
      },
      {"'d/bias'", "[1]", "[2]"}));
}

TEST_F(ModelTest, RegularizersAddUp) {
  const Sequential model({Dense(1, {.kernel_initializer = "ones",
                                    .bias_initializer = "ones",
                                    .kernel_regularizer = regularizers::l2(0.5),
                                    .bias_regularizer = "l1",
                                    .input_shape = {4}}),
                          Dense(1)});
  EXPECT_FLOAT_EQ(model.regularization_loss().item<float>(), 2.01f);
}

TEST_F(ModelTest, CheckpointsHoldTheLayersByTheirPlace) {
  const harness::TempFolder folder;
  const auto make = [](const char* initializer) {
    return Sequential({Dense(2, {.kernel_initializer = initializer}), BatchNormalization()});
  };
  const Sequential saved = make("ones");
  saved.build({{DType::float32, {-1, 3}}});
  EXPECT_EQ(saved.tracked_names(), (Names{"_functional"}));
  const auto path = train::Checkpoint({{"model", saved}}).save(folder / "ckpt");

  const Sequential later = make("zeros");
  const auto status = train::Checkpoint({{"model", later}}).restore(path);
  EXPECT_EQ(values(later(ones({1, 3})))[0], values(saved(ones({1, 3})))[0]);
  EXPECT_EQ(values(later.weights()[0]), (std::vector<float>(6, 1)));
  status.assert_consumed();
}

TEST_F(ModelTest, MistakesAreNamed) {
  const KerasTensor x = Input({3}), y = Input({3}, DType::float32, "other");
  const KerasTensor sum = Add()({x, y});
  EXPECT_TRUE(
      throws<InvalidArgument>([&] { Model({x}, {sum}, "m"); }, {"m:", "'other'", "inputs"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { Model({}, {sum}); }, {"0 inputs and 1 outputs"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { Model({x, y, x}, {sum}); }, {"input 2", "twice"}));
  const KerasTensor twice = Dense(3, {.name = "d"})(Dense(3, {.name = "d"})(x));
  EXPECT_TRUE(throws<InvalidArgument>([&] { Model({x}, {twice}); }, {"two layers", "'d'"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        Sequential({Dense(1, {.name = "d"}), Dense(1, {.name = "d"})});
      },
      {"two layers", "'d'"}));
  const Model model({x, y}, {sum}, "m");
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        model(Tensors{zeros({1, 3})});
      },
      {"m: called with 1 inputs, it has 2"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        model(Tensors{zeros({1, 3}), zeros({1, 4})});
      },
      {"m: input 1 is [1,4], [None,3] is wanted"}));
  const Sequential chain({Dense(2, {.name = "d", .input_shape = {3}})}, "chain");
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        chain(zeros({1, 4}));
      },
      {"chain: d: matmul", "[1,4]"}));
  EXPECT_TRUE(throws<FailedPrecondition>(
      [&] {
        chain.build({{DType::float32, {-1, 4}}});
      },
      {"chain", "other inputs"}));
  chain.build({{DType::float32, {-1, 3}}});
}

TEST_F(ModelTest, ALayerThatDoesNotFitIsNotAdded) {
  const Sequential model({Dense(2, {.input_shape = {3}})});
  EXPECT_THROW(model.add(Conv2D(1, 1)), InvalidArgument);
  EXPECT_EQ(model.layers().size(), 1u);
  EXPECT_EQ(model(zeros({1, 3})).shape(), (Shape{1, 2}));
}

}  // namespace
}  // namespace tandem::keras
