#include <gtest/gtest.h>

#include <limits>

#include "harness/op_check.h"

namespace tandem::harness {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// A binary op over two tensors of one shape against plain numbers.
OpRow same_shape(const std::string& name, Tensor (*op)(const Tensor&, const Tensor&),
                 double (*plain)(double, double)) {
  const Tensor a = spread({5, 3}, 1);
  const Tensor b = spread({5, 3}, 2);
  const auto x = a.to_vector<double>();
  const auto y = b.to_vector<double>();
  std::vector<double> expected(x.size());
  for (size_t i = 0; i < x.size(); ++i) expected[i] = plain(x[i], y[i]);
  return {.name = name,
          .inputs = {a, b},
          .f = [op](const Tensors& t) { return op(t[0], t[1]); },
          .expected = expected,
          .shape = {5, 3},
          .follows_rows = true};
}

TEST(Elementwise, ArithmeticOnOneShape) {
  check_op(same_shape("add", add, [](double a, double b) { return a + b; }));
  check_op(same_shape("sub", sub, [](double a, double b) { return a - b; }));
  check_op(same_shape("mul", mul, [](double a, double b) { return a * b; }));
}

TEST(Elementwise, BroadcastsInEveryDirection) {
  const Tensor matrix = doubles({1, 2, 3, 4, 5, 6}, {3, 2});
  const auto f = [](const Tensors& t) { return mul(t[0], t[1]) + t[1]; };
  check_op(
      {"row", {matrix, doubles({10, 20}, {2})}, f, {20, 60, 40, 100, 60, 140}, {3, 2}, true, true});
  check_op({"column",
            {matrix, doubles({1, 2, 3}, {3, 1})},
            f,
            {2, 3, 8, 10, 18, 21},
            {3, 2},
            true,
            true});
  check_op({"scalar", {matrix, doubles({2}, {})}, f, {4, 6, 8, 10, 12, 14}, {3, 2}, true, true});
  check_op(
      {"left", {doubles({1, 2}, {2}), doubles({1, 2, 3, 4}, {2, 2})}, f, {2, 6, 6, 12}, {2, 2}});
  check_op({"outer",
            {doubles({1, 2}, {2, 1}), doubles({1, 2, 3}, {1, 3})},
            f,
            {2, 4, 6, 3, 6, 9},
            {2, 3}});
}

TEST(Elementwise, EmptyTensorsStayEmpty) {
  const auto f = [](const Tensors& t) { return relu(add(t[0], t[1])); };
  check_op({"empty", {doubles({}, {0, 3}), doubles({1, 2, 3}, {3})}, f, {}, {0, 3}, false});
}

TEST(Elementwise, ReluCutsBelowZeroAndKeepsNan) {
  const auto f = [](const Tensors& t) { return relu(t[0]); };
  check_op({"relu", {doubles({-2, 3, 0.5, -0.1}, {4})}, f, {0, 3, 0.5, 0}, {4}, true, true});
  check_op({"relu of nan", {doubles({kNan, -1}, {2})}, f, {kNan, 0}, {2}, false});
}

TEST(Elementwise, EqualComparesByValue) {
  const auto f = [](const Tensors& t) { return equal(t[0], t[1]); };
  check_op({"equal",
            {doubles({1, 2, kNan}, {3}), doubles({1, 3, kNan}, {3})},
            f,
            {1, 0, 0},
            {3},
            false,
            true});
  const Tensor words = Tensor::from({int64_t{4}, int64_t{5}}, {2});
  check_op({"equal int64", {words, Tensor(int64_t{5})}, f, {0, 1}, {2}, false});
}

TEST(Elementwise, ErrorsNameTheOpAndBothSides) {
  const auto message = [](auto call) -> std::string {
    try {
      call();
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message([] {
              add(fill({2, 3}, 1), fill({4, 3}, 1));
            }),
            "add: shapes do not broadcast, [2,3] and [4,3]");
  EXPECT_EQ(message([] { mul(fill({2}, 1), fill({2}, 1, DType::float64)); }),
            "mul: dtypes differ, float32[2] and float64[2]; cast one of them");
}

}  // namespace
}  // namespace tandem::harness
