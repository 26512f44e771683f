#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "ops/elementwise/elementwise_rows.h"

namespace tandem::harness {
namespace {

Tensor wide() {
  return spread_through({5, 3}, 1, [](double x) { return 4 * x; });
}
Tensor gelu_exact(const Tensor& x) { return gelu(x); }
Tensor gelu_tanh(const Tensor& x) { return gelu(x, {.approximate = true}); }

double plain_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double plain_silu(double x) { return x * plain_sigmoid(x); }
double plain_softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double normal_below(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double normal_density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }
double plain_gelu(double x) { return x * normal_below(x); }
double plain_gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

/// With s = sigmoid(2 u): s + x s (1 - s) 2 u'.
double plain_gelu_tanh_slope(double x) {
  const double k = std::sqrt(8 / std::numbers::pi);
  const double s = plain_sigmoid(k * (x + 0.044715 * x * x * x));
  return s + x * s * (1 - s) * k * (1 + 3 * 0.044715 * x * x);
}

TEST(Activation, ValuesAndGradients) {
  check_op(unary_row(
      "relu", relu, [](double x) { return x > 0 ? x : 0; }, wide()));
  check_op(unary_row(
      "relu6", relu6, [](double x) { return std::min(x > 0 ? x : 0, 6.0); }, wide()));
  check_op(unary_row(
      "leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.3); },
      [](double x) { return x > 0 ? x : 0.3 * x; }, wide()));
  check_op(unary_row(
      "elu", [](const Tensor& x) { return elu(x, 1.5); },
      [](double x) { return x > 0 ? x : 1.5 * std::expm1(x); }, wide()));
  check_op(unary_row("gelu", gelu_exact, plain_gelu, wide()));
  check_op(unary_row("gelu by tanh", gelu_tanh, plain_gelu_tanh, wide()));
  check_op(unary_row("sigmoid", sigmoid, plain_sigmoid, wide()));
  check_op(unary_row("silu", silu, plain_silu, wide()));
  check_op(unary_row("softplus", softplus, plain_softplus, wide()));
}

TEST(Activation, ParametersHaveDefaults) {
  EXPECT_EQ(leaky_relu(fill({1}, -1, DType::float64)).item<double>(), -0.2);
  EXPECT_EQ(elu(fill({1}, -1, DType::float64)).item<double>(), std::expm1(-1));
}

TEST(Activation, SecondDerivatives) {
  const auto slope = [](double x, double s) { return s * (1 + x * (1 - s)); };
  check_op(derivative_row(
      "relu", relu, [](double x) { return x > 0 ? 1 : 0; }, wide()));
  check_op(derivative_row(
      "relu6", relu6, [](double x) { return x > 0 && x < 6 ? 1 : 0; }, wide()));
  check_op(derivative_row(
      "leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.3); },
      [](double x) { return x > 0 ? 1 : 0.3; }, wide()));
  check_op(derivative_row(
      "elu", [](const Tensor& x) { return elu(x, -0.5); },
      [](double x) { return x > 0 ? 1 : -0.5 * std::exp(x); }, wide()));
  check_op(derivative_row(
      "gelu", gelu_exact, [](double x) { return normal_below(x) + x * normal_density(x); },
      wide()));
  check_op(derivative_row("gelu by tanh", gelu_tanh, plain_gelu_tanh_slope, wide()));
  check_op(derivative_row(
      "sigmoid", sigmoid, [](double x) { return plain_sigmoid(x) * plain_sigmoid(-x); }, wide()));
  check_op(derivative_row(
      "silu", silu, [=](double x) { return slope(x, plain_sigmoid(x)); }, wide()));
  check_op(derivative_row("softplus", softplus, plain_sigmoid, wide()));
}

/// NaN stays NaN, and the ends are the limits.
TEST(Activation, Limits) {
  const Tensor x = doubles({kNan, kInf, -kInf, 1e30, -1e30, 0}, {6});
  const auto check = [&](const std::string& name, const Unary& op, std::vector<double> expected) {
    check_op(at_points(
        {name, {x}, [op](const Tensors& t) { return op(t[0]); }, std::move(expected), {6}}));
  };
  check("relu", relu, {kNan, kInf, 0, 1e30, 0, 0});
  check("relu6", relu6, {kNan, 6, 0, 6, 0, 0});
  check("leaky_relu", [](const Tensor& v) { return leaky_relu(v, 0.5); },
        {kNan, kInf, -kInf, 1e30, -5e29, 0});
  check("elu", [](const Tensor& v) { return elu(v); }, {kNan, kInf, -1, 1e30, -1, 0});
  check("gelu", gelu_exact, {kNan, kInf, 0, 1e30, 0, 0});
  check("gelu by tanh", gelu_tanh, {kNan, kInf, 0, 1e30, 0, 0});
  check("sigmoid", sigmoid, {kNan, 1, 0, 1, 0, 0.5});
  check("silu", silu, {kNan, kInf, 0, 1e30, 0, 0});
  check("softplus", softplus, {kNan, kInf, 0, 1e30, 0, std::log(2.0)});
}

TEST(Activation, LimitsOfGradients) {
  const Tensor x = doubles({kNan, kInf, -kInf, 1e30, -1e30}, {5});
  const auto check = [&](const std::string& name, const Unary& op, double nan = kNan) {
    const OpRow row = derivative_row(
        name, op, [](double) { return 0; }, x);
    check_op(at_points({row.name, {x}, row.f, {nan, 1, 0, 1, 0}, {5}}));
  };
  check("relu", relu, 0);
  check("elu", [](const Tensor& v) { return elu(v); });
  check("gelu", gelu_exact);
  check("gelu by tanh", gelu_tanh);
  check("silu", silu);
  check("softplus", softplus);
}

}  // namespace
}  // namespace tandem::harness
