#include "tandem/keras/optimizers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "harness/throws.h"
#include "tandem/tandem.h"

namespace tandem::keras::optimizers {
namespace {

constexpr double kRate = 0.1, kBeta1 = 0.8, kBeta2 = 0.95, kEpsilon = 1e-3;

/// The gradient of element i in step t.
double slope(size_t i, int t) { return std::sin(static_cast<double>(i + 1) * (t + 2)); }

std::vector<double> plain_adam(std::vector<double> w, int steps, double weight_decay) {
  std::vector<double> m(w.size()), v(w.size());
  for (int t = 1; t <= steps; ++t) {
    const double alpha = kRate * std::sqrt(1 - std::pow(kBeta2, t)) / (1 - std::pow(kBeta1, t));
    for (size_t i = 0; i < w.size(); ++i) {
      const double g = slope(i, t);
      w[i] -= kRate * weight_decay * w[i];
      m[i] += (g - m[i]) * (1 - kBeta1);
      v[i] += (g * g - v[i]) * (1 - kBeta2);
      w[i] -= alpha * m[i] / (std::sqrt(v[i]) + kEpsilon);
    }
  }
  return w;
}

void expect_steps(const Optimizer& optimizer, double weight_decay) {
  const std::vector<double> initial = {1, -2, 0, 30, 0.5, -0.25, 4};
  constexpr int kSteps = 5;
  const Variable w(Tensor::from(initial, {7}), {.name = "w"});
  for (int t = 1; t <= kSteps; ++t) {
    std::vector<double> g;
    for (size_t i = 0; i < initial.size(); ++i) g.push_back(slope(i, t));
    optimizer.apply_gradients({Tensor::from(g, {7})}, {w});
  }
  const auto expected = plain_adam(initial, kSteps, weight_decay);
  const auto got = w.value().to_vector<double>();
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12) << i;
  EXPECT_EQ(optimizer.iterations().value().item<int64_t>(), kSteps);
}

TEST(Optimizers, AdamFollowsItsFormula) {
  expect_steps(Adam(kRate, {.beta_1 = kBeta1, .beta_2 = kBeta2, .epsilon = kEpsilon}), 0);
}

TEST(Optimizers, AdamWAlsoShrinksTheWeights) {
  expect_steps(
      AdamW(kRate, {.weight_decay = 0.3, .beta_1 = kBeta1, .beta_2 = kBeta2, .epsilon = kEpsilon}),
      0.3);
}

TEST(Optimizers, AdamWHasTheDefaultsOfKeras) {
  const Variable w(Tensor::from({2.0}, {1}), {.name = "w"});
  AdamW().apply_gradients({Tensor::from({0.0}, {1})}, {w});
  EXPECT_DOUBLE_EQ(w.value().to_vector<double>()[0], 2 * (1 - 0.001 * 0.004));
}

TEST(Optimizers, NamesAreThoseOfKerasInAnyCase) {
  for (const char* name : {"adagrad", "adam", "adamw", "rmsprop", "sgd"}) {
    EXPECT_EQ(Optimizer(name).name(), name);
  }
  EXPECT_EQ(Optimizer("RMSprop").name(), "rmsprop");
  EXPECT_EQ(Optimizer("SGD").current_learning_rate().item<double>(), 0.01);
  EXPECT_TRUE(harness::throws<InvalidArgument>(
      [] { Optimizer("adamm"); },
      {"optimizer: 'adamm' is unknown; there are adagrad, adam, adamw, rmsprop, sgd"}));
}

TEST(Optimizers, CopiesAreTheSameOptimizer) {
  const Variable w(Tensor::from({2.0}, {1}));
  const SGD first(0.5);
  const Optimizer second = first;  // NOLINT(performance-unnecessary-copy-initialization)
  second.learning_rate().assign(Tensor(0.25));
  first.apply_gradients({Tensor::from({1.0}, {1})}, {w});
  EXPECT_EQ(w.value().to_vector<double>()[0], 1.75);
  EXPECT_EQ(second.iterations().value().item<int64_t>(), 1);
}

TEST(Optimizers, EachHasSlotsOfItsOwn) {
  const Variable w(Tensor::from({0.0}, {1}));
  const Tensor g = Tensor::from({1.0}, {1});
  const SGD first(1.0, {.momentum = 0.5});
  first.apply_gradients({g}, {w});
  first.apply_gradients({g}, {w});
  EXPECT_EQ(w.value().to_vector<double>()[0], -2.5);
  SGD(1.0, {.momentum = 0.5}).apply_gradients({g}, {w});
  EXPECT_EQ(w.value().to_vector<double>()[0], -3.5);
  first.apply_gradients({g}, {w});
  EXPECT_EQ(w.value().to_vector<double>()[0], -5.25);
}

TEST(Optimizers, VariablesOfTwoDtypesAreUpdatedTogether) {
  const Variable a(Tensor::from({3.0}, {1}));
  const Variable b(Tensor::from<float>({4, 0}, {2}));
  SGD(1.0, {.global_clipnorm = 1.0})
      .apply_gradients({Tensor::from({3.0}, {1}), Tensor::from<float>({4, 0}, {2})}, {a, b});
  EXPECT_NEAR(a.value().to_vector<double>()[0], 3 - 0.6, 1e-12);
  EXPECT_NEAR(b.value().to_vector<float>()[0], 4 - 0.8f, 1e-6);
  EXPECT_EQ(b.value().to_vector<float>()[1], 0);
}

TEST(Optimizers, GradientsOfAFewRowsAreClippedAndAccumulated) {
  const auto trained = [](bool sparse) {
    const Variable table(Tensor::from<float>({1, 2, 3, 4, 5, 6}, {3, 2}));
    const SGD sgd(0.5, {.clipnorm = 1.0, .gradient_accumulation_steps = 2});
    for (int i = 0; i < 4; ++i) {
      GradientTape tape;
      const Tensor rows = gather(table.value(), Tensor::from<int32_t>({2, 0, 2}, {3}));
      Tensor gradient = tape.gradient(reduce_sum(square(rows)), table);
      EXPECT_TRUE(gradient.is_row_sparse());
      if (!sparse) gradient = gradient + zeros({3, 2});
      sgd.apply_gradients({gradient}, {table});
    }
    return table.value().to_vector<float>();
  };
  const auto found = trained(true);
  EXPECT_EQ(found, trained(false));
  EXPECT_LT(found[0], 1);
  EXPECT_EQ(found[2], 3);
}

TEST(Optimizers, ANaNIsForgottenWithTheStepsItWasAccumulatedIn) {
  const Variable w(Tensor::from({1.0}, {1}));
  const SGD sgd(1.0, {.clipvalue = 0.5, .gradient_accumulation_steps = 2});
  const auto apply = [&](double g) { sgd.apply_gradients({Tensor::from({g}, {1})}, {w}); };
  apply(std::nan(""));
  EXPECT_EQ(w.value().to_vector<double>()[0], 1);
  apply(1);
  EXPECT_TRUE(std::isnan(w.value().to_vector<double>()[0]));
  w.assign(Tensor::from({1.0}, {1}));
  apply(0.5);
  apply(0);
  EXPECT_EQ(w.value().to_vector<double>()[0], 0.75);
}

TEST(Optimizers, AnInfiniteJointNormSpoilsAllGradients) {
  const Variable a(Tensor::from({1.0}, {1}));
  const Variable b(Tensor::from({1.0}, {1}));
  const double infinity = std::numeric_limits<double>::infinity();
  SGD(1.0, {.global_clipnorm = 1.0})
      .apply_gradients({Tensor::from({infinity}, {1}), Tensor::from({1.0}, {1})}, {a, b});
  EXPECT_TRUE(std::isnan(a.value().to_vector<double>()[0]));
  EXPECT_TRUE(std::isnan(b.value().to_vector<double>()[0]));
}

TEST(Optimizers, NoVariablesAreNoStep) {
  const Adam adam;
  adam.apply_gradients({}, {});
  EXPECT_EQ(adam.iterations().value().item<int64_t>(), 0);
}

TEST(Optimizers, OptionsThatMakeNoSenseAreRefused) {
  using harness::throws;
  EXPECT_TRUE(
      throws<InvalidArgument>([] { SGD(0.1, {.clipnorm = 1.0, .global_clipnorm = 1.0}); },
                              {"sgd: clipnorm and global_clipnorm are given; only one of"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { Adam(0.1, {.clipvalue = 0.0}); },
                                      {"adam: clipvalue is 0, must be > 0"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { RMSprop(0.1, {.gradient_accumulation_steps = 1}); },
                                      {"rmsprop: gradient_accumulation_steps is 1, must be >= 2"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { SGD(0.1, {.momentum = 1.5}); },
                                      {"sgd: momentum is 1.5, must be in [0, 1]"}));
}

TEST(Optimizers, AVariableIsGivenOnce) {
  const Variable w(Tensor::from({2.0}, {1}), {.name = "w"});
  const Tensor g = Tensor::from({0.0}, {1});
  EXPECT_TRUE(harness::throws<InvalidArgument>(
      [&] {
        SGD().apply_gradients({g, g}, {w, w});
      },
      {"apply_gradients: variable 'w' is there twice"}));
}

TEST(Schedules, AreFunctionsOfTheStep) {
  const SGD sgd(schedules::LearningRateSchedule(
      [](const Tensor& step) { return cast(step, DType::float32) * 0.5 + 1.0; }));
  const Variable w(Tensor::from({0.0}, {1}));
  const auto step = function([&](const Tensor& g) { sgd.apply_gradients({g}, {w}); });
  for (int i = 0; i < 3; ++i) step(Tensor::from({1.0}, {1}));
  EXPECT_EQ(w.value().to_vector<double>()[0], -(1 + 1.5 + 2));
  EXPECT_EQ(sgd.current_learning_rate().item<double>(), 2.5);
  EXPECT_TRUE(harness::throws<FailedPrecondition>([&] { sgd.learning_rate(); },
                                                  {"sgd: learning_rate is set by a schedule"}));
}

TEST(Schedules, RefuseWhatMakesNoSense) {
  using harness::throws;
  EXPECT_TRUE(throws<InvalidArgument>([] { schedules::CosineDecay(0.1, 0); },
                                      {"CosineDecay: decay_steps is 0, must be > 0"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { schedules::CosineDecay(0.1, 1, {.warmup_steps = -1}); },
                                      {"CosineDecay: warmup_steps is -1, must be >= 0"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        schedules::PiecewiseConstantDecay({1, 2}, {0.1, 0.2});
      },
      {"PiecewiseConstantDecay: 2 values for 2 boundaries"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        schedules::PiecewiseConstantDecay({2, 2}, {0.1, 0.2, 0.3});
      },
      {"PiecewiseConstantDecay: boundaries are [2, 2], must rise"}));
  const schedules::LearningRateSchedule vector([](const Tensor&) { return zeros({2}); });
  EXPECT_TRUE(throws<InvalidArgument>([&] { vector(Tensor(int64_t{0})); },
                                      {"LearningRateSchedule: a rate is [2], must be a scalar"}));
}

TEST(Optimizers, AGradientMustFitItsVariable) {
  const Variable w(Tensor::from({2.0}, {1}), {.name = "w"});
  EXPECT_TRUE(harness::throws<InvalidArgument>(
      [&] {
        AdamW().apply_gradients({Tensor::from({0.0, 1.0}, {2})}, {w});
      },
      {"apply_gradients: variable 'w' is float64[1], its gradient float64[2]"}));
}

}  // namespace
}  // namespace tandem::keras::optimizers
