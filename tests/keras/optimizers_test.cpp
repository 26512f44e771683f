#include "tandem/optimizers.h"

#include <gtest/gtest.h>

#include <cmath>

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

void expect_steps(const Adam& optimizer, double weight_decay) {
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
