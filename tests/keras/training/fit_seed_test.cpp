/// The same seed gives the same weights and the same losses, whoever makes the steps.
#include <gtest/gtest.h>

#include "harness/fresh_devices.h"
#include "tandem/gradient_tape.h"
#include "tandem/keras/layers.h"
#include "tandem/keras/model.h"
#include "tandem/ops.h"

namespace tandem::keras {
namespace {

using layers::Dense;
using layers::Dropout;

/// Each layer makes its weights when it is first called, after others have drawn their numbers.
struct Own : LayerBody {
  Own() : LayerBody("own") {}
  Tensors call(const Tensors& inputs, const CallContext& context) override {
    Tensor x = inputs[0];
    for (const Layer& layer : chain) x = layer(x, context);
    return {x};
  }
  std::vector<Layer> chain{add_layer("0", Dense(8, {.activation = "tanh"})),
                           add_layer("1", Dropout(0.5)), add_layer("2", Dense(4)),
                           add_layer("3", Dropout(0.25)), add_layer("4", Dense(1))};
};

struct Case {
  const char* name;
  std::function<Model()> make;
};

std::vector<Layer> chain() { return {Dense(8), Dropout(0.5), Dense(4), Dropout(0.25), Dense(1)}; }

const Case kCases[] = {
    {"Sequential", [] { return Sequential(chain()); }},
    {"Functional",
     [] {
       const auto input = Input({3});
       KerasTensor end = input;
       for (const Layer& layer : chain()) end = layer(end);
       return Model({input}, {end});
     }},
    {"Own", [] { return make_model<Own>(); }},
};

class SameSeed : public harness::FreshDevices, public testing::WithParamInterface<Case> {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    x_ = random_uniform({12, 3}, -1, 1, {.seed = 1});
    y_ = random_uniform({12, 1}, -1, 1, {.seed = 2});
  }

  static constexpr int kSteps = 3;
  using Losses = std::vector<double>;

  static CompileOptions options(bool run_eagerly) {
    return {.optimizer = optimizers::SGD(0.125), .loss = "mse", .run_eagerly = run_eagerly};
  }

  /// Trains by fit, a step an epoch.
  Losses fitted(bool run_eagerly, bool by_data_set) const {
    random::set_seed(7);
    const Model model = GetParam().make();
    model.compile(options(run_eagerly));
    const FitOptions fit{
        .batch_size = 12, .epochs = kSteps, .verbose = Verbose::silent, .shuffle = false};
    const History history =
        by_data_set ? model.fit(data::Dataset::from_tensor_slices(x_, y_).batch(12), fit)
                    : model.fit(x_, y_, fit);
    return history.history.at("loss");
  }

  /// Trains by a loop of one's own. The model's first call is within the step.
  Losses looped(bool compiled) const {
    random::set_seed(7);
    const Model model = GetParam().make();
    const optimizers::SGD optimizer(0.125);
    const auto step = [&](const Tensor& x, const Tensor& y) {
      GradientTape tape;
      const Tensor loss = Loss("mse")(y, model(x, {.training = true}));
      const Variables weights = model.trainable_weights();
      optimizer.apply_gradients(tape.gradient(loss, weights), weights);
      return loss;
    };
    const auto function = tandem::function(step);
    Losses losses;
    for (int i = 0; i < kSteps; ++i) {
      losses.push_back((compiled ? function(x_, y_) : step(x_, y_)).item<float>());
    }
    return losses;
  }

  static void expect_same(const Losses& got, const Losses& wanted, const char* what) {
    ASSERT_EQ(got.size(), wanted.size()) << what;
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], wanted[i], 1e-5) << what << " " << i;
  }

  Tensor x_, y_;
};

INSTANTIATE_TEST_SUITE_P(Of, SameSeed, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST_P(SameSeed, GivesTheSameLossesEagerlyAndCompiledInFitAndInALoop) {
  const Losses wanted = fitted(false, false);
  EXPECT_NE(wanted[0], wanted[1]);
  expect_same(fitted(true, false), wanted, "fit of arrays, eagerly");
  expect_same(fitted(false, true), wanted, "fit of a data set");
  expect_same(fitted(true, true), wanted, "fit of a data set, eagerly");
  expect_same(looped(true), wanted, "a function");
  expect_same(looped(false), wanted, "an eager loop");
}

TEST_P(SameSeed, GivesTheSameWeightsWhateverIsDrawnBeforeTheyAreMade) {
  const auto weights = [&](bool draws) {
    random::set_seed(3);
    const Model model = GetParam().make();
    model(draws ? random_normal({12, 3}) : x_, {.training = draws});
    return model.get_weights();
  };
  const Tensors plain = weights(false);
  const Tensors later = weights(true);
  ASSERT_EQ(plain.size(), later.size());
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(plain[i].to_vector<float>(), later[i].to_vector<float>()) << i;
  }
}

}  // namespace
}  // namespace tandem::keras
