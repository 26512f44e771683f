#include <gtest/gtest.h>

#include <cmath>

#include "ops/elementwise/elementwise_rows.h"

namespace tandem::harness {
namespace {

struct Comparison {
  const char* name;
  Tensor (*op)(const Tensor&, const Tensor&);
  bool (*plain)(double, double);
};

const std::vector<Comparison>& comparisons() {
  static const std::vector<Comparison> all = {
      {"equal", equal, [](double a, double b) { return a == b; }},
      {"not_equal", not_equal, [](double a, double b) { return a != b; }},
      {"less", less, [](double a, double b) { return a < b; }},
      {"less_equal", less_equal, [](double a, double b) { return a <= b; }},
      {"greater", greater, [](double a, double b) { return a > b; }},
      {"greater_equal", greater_equal, [](double a, double b) { return a >= b; }},
  };
  return all;
}

/// Eleven elements: a whole vector and a rest.
const std::vector<double> kLeft = {1, 2, 3, kNan, kNan, kInf, -kInf, 0, -0.0, 5, -7};
const std::vector<double> kRight = {1, 3, 2, kNan, 1, kInf, kInf, -0.0, 0, -5, -7};

TEST(Comparison, OfFloatingNumbers) {
  for (const Comparison& c : comparisons()) {
    check_op(
        at_points(binary_row(c.name, c.op, c.plain, doubles(kLeft, {11}), doubles(kRight, {11}))));
    std::vector<double> with_one;
    std::vector<double> one_with;
    for (double x : kLeft) {
      with_one.push_back(c.plain(x, 1));
      one_with.push_back(c.plain(1, x));
    }
    const auto f = [&](const Tensors& t) { return c.op(t[0], t[1]); };
    const Tensor one = doubles({1}, {});
    check_op(at_points({c.name, {doubles(kLeft, {11}), one}, f, with_one, {11}}));
    check_op(at_points({c.name, {one, doubles(kLeft, {11})}, f, one_with, {11}}));
  }
}

template <class T>
class ComparisonOf : public testing::Test {};
using WholeTypes = testing::Types<int32_t, int64_t, uint8_t>;
TYPED_TEST_SUITE(ComparisonOf, WholeTypes);

TYPED_TEST(ComparisonOf, WholeNumbers) {
  using T = TypeParam;
  const std::vector<T> x = {1, 2, 3, 100};
  const std::vector<T> y = {1, 3, 2, 99};
  for (const Comparison& c : comparisons()) {
    std::vector<bool> expected;
    for (size_t i = 0; i < x.size(); ++i) {
      expected.push_back(c.plain(static_cast<double>(x[i]), static_cast<double>(y[i])));
    }
    const Tensor result = c.op(Tensor::from(x, {2, 2}), Tensor::from(y, {2, 2}));
    EXPECT_EQ(result.dtype(), DType::boolean);
    EXPECT_EQ(result.template to_vector<bool>(), expected) << c.name;
  }
}

TEST(Comparison, LogicOfBools) {
  const Tensor a = cast(doubles({0, 0, 1, 1}, {4}), DType::boolean);
  const Tensor b = cast(doubles({0, 1, 0, 1}, {4}), DType::boolean);
  const auto with = [](Tensor (*op)(const Tensor&, const Tensor&)) {
    return [op](const Tensors& t) { return op(t[0], t[1]); };
  };
  check_op(at_points({"and", {a, b}, with(logical_and), {0, 0, 0, 1}, {4}}));
  check_op(at_points({"or", {a, b}, with(logical_or), {0, 1, 1, 1}, {4}}));
  check_op(at_points({"xor", {a, b}, with(logical_xor), {0, 1, 1, 0}, {4}}));
  check_op(at_points({"equal", {a, b}, with(equal), {1, 0, 0, 1}, {4}}));
  check_op(at_points(
      {"not", {a}, [](const Tensors& t) { return logical_not(t[0]); }, {1, 1, 0, 0}, {4}}));
}

TEST(Comparison, KindsOfNumbers) {
  const Tensor x = doubles({kNan, kInf, -kInf, 0, 1}, {5});
  check_op(at_points(unary_row(
      "is_nan", is_nan, [](double v) { return std::isnan(v); }, x)));
  check_op(at_points(unary_row(
      "is_inf", is_inf, [](double v) { return std::isinf(v); }, x)));
  check_op(at_points(unary_row(
      "is_finite", is_finite, [](double v) { return std::isfinite(v); }, x)));
}

TEST(Comparison, HasNoGradient) {
  const Tensor x = doubles({1, 2}, {2});
  GradientTape tape;
  tape.watch(x);
  const Tensor ones = cast(less_equal(x, x), DType::float64);
  EXPECT_FALSE(tape.gradient(reduce_sum(ones), Tensors{x})[0].defined());
}

}  // namespace
}  // namespace tandem::harness
