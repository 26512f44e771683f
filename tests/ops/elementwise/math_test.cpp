#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "ops/elementwise/elementwise_rows.h"

namespace tandem::harness {
namespace {

using std::numbers::pi;

Tensor anywhere() { return spread({5, 3}, 1); }
Tensor positive() {
  return spread_through({5, 3}, 1, [](double x) { return std::abs(x) + 0.1; });
}
Tensor within_one() {
  return spread_through({5, 3}, 1, [](double x) { return 0.45 * x; });
}

TEST(Math, Functions) {
  check_op(unary_row(
      "reciprocal", reciprocal, [](double x) { return 1 / x; }, anywhere()));
  check_op(unary_row(
      "sqrt", sqrt, [](double x) { return std::sqrt(x); }, positive()));
  check_op(unary_row(
      "rsqrt", rsqrt, [](double x) { return 1 / std::sqrt(x); }, positive()));
  check_op(unary_row(
      "exp", exp, [](double x) { return std::exp(x); }, anywhere()));
  check_op(unary_row(
      "expm1", expm1, [](double x) { return std::expm1(x); }, anywhere()));
  check_op(unary_row(
      "log", log, [](double x) { return std::log(x); }, positive()));
  check_op(unary_row(
      "log1p", log1p, [](double x) { return std::log1p(x); }, within_one()));
  check_op(unary_row(
      "sin", sin, [](double x) { return std::sin(x); }, anywhere()));
  check_op(unary_row(
      "cos", cos, [](double x) { return std::cos(x); }, anywhere()));
  check_op(unary_row(
      "tan", tan, [](double x) { return std::tan(x); }, within_one()));
  check_op(unary_row(
      "asin", asin, [](double x) { return std::asin(x); }, within_one()));
  check_op(unary_row(
      "acos", acos, [](double x) { return std::acos(x); }, within_one()));
  check_op(unary_row(
      "atan", atan, [](double x) { return std::atan(x); }, anywhere()));
  check_op(unary_row(
      "sinh", sinh, [](double x) { return std::sinh(x); }, anywhere()));
  check_op(unary_row(
      "cosh", cosh, [](double x) { return std::cosh(x); }, anywhere()));
  check_op(unary_row(
      "tanh", tanh, [](double x) { return std::tanh(x); }, anywhere()));
  check_op(unary_row(
      "erf", erf, [](double x) { return std::erf(x); }, anywhere()));
}

TEST(Math, Rounding) {
  const Tensor x = doubles({-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49, -3.7, 1e10, kInf, kNan}, {11});
  check_op(at_points(unary_row(
      "floor", floor, [](double v) { return std::floor(v); }, x)));
  check_op(at_points(unary_row(
      "ceil", ceil, [](double v) { return std::ceil(v); }, x)));
  check_op(at_points(unary_row(
      "round", round, [](double v) { return std::nearbyint(v); }, x)));
}

TEST(Math, SecondDerivatives) {
  check_op(derivative_row(
      "exp", exp, [](double x) { return std::exp(x); }, anywhere()));
  check_op(derivative_row(
      "log", log, [](double x) { return 1 / x; }, positive()));
  check_op(derivative_row(
      "sin", sin, [](double x) { return std::cos(x); }, anywhere()));
  check_op(derivative_row(
      "sqrt", sqrt, [](double x) { return 0.5 / std::sqrt(x); }, positive()));
  check_op(derivative_row(
      "tanh", tanh, [](double x) { return 1 - std::tanh(x) * std::tanh(x); }, anywhere()));
  check_op(derivative_row(
      "erf", erf, [](double x) { return 2 / std::sqrt(pi) * std::exp(-x * x); }, anywhere()));
}

struct Limits {
  const char* name;
  Tensor (*op)(const Tensor&);
  double (*plain)(double);
};

/// Beyond the domain, at its ends, and where results overflow: as in <cmath>.
TEST(Math, LimitsAreThoseOfTheStandardLibrary) {
  const Tensor x =
      doubles({kNan, kInf, -kInf, 0, -0.0, 1, -1, 1.5, -1.5, 800, -800, 1e30, -1e30}, {13});
  for (const Limits& limits : std::vector<Limits>{{"sqrt", sqrt, std::sqrt},
                                                  {"exp", exp, std::exp},
                                                  {"expm1", expm1, std::expm1},
                                                  {"log", log, std::log},
                                                  {"log1p", log1p, std::log1p},
                                                  {"asin", asin, std::asin},
                                                  {"acos", acos, std::acos},
                                                  {"atan", atan, std::atan},
                                                  {"sinh", sinh, std::sinh},
                                                  {"cosh", cosh, std::cosh},
                                                  {"tanh", tanh, std::tanh},
                                                  {"erf", erf, std::erf},
                                                  {"sin", sin, std::sin},
                                                  {"cos", cos, std::cos},
                                                  {"tan", tan, std::tan}}) {
    OpRow row = at_points(unary_row(limits.name, limits.op, limits.plain, x));
    // Float32 has other limits, and 1e30 is another number there: see the test of accuracy.
    row.float32_tolerance = 0;
    check_op(row);
  }
}

}  // namespace
}  // namespace tandem::harness
