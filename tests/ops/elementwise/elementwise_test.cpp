// What holds for every elementwise op: broadcasting, empty tensors, errors, operators.
#include <gtest/gtest.h>

#include "harness/throws.h"
#include "op/registry.h"
#include "ops/elementwise/elementwise_rows.h"

namespace tandem::harness {
namespace {

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

TEST(Elementwise, LongFunctionsBroadcastToo) {
  const auto f = [](const Tensors& t) { return pow(t[0], t[1]); };
  check_op({"row",
            {doubles({1, 2, 3, 4, 5, 6}, {3, 2}), doubles({2, 3}, {2})},
            f,
            {1, 8, 9, 64, 25, 216},
            {3, 2},
            true,
            true});
  check_op({"column",
            {doubles({2, 3}, {2, 1}), doubles({1, 2, 3}, {3})},
            f,
            {2, 4, 8, 3, 9, 27},
            {2, 3}});
}

TEST(Elementwise, EmptyTensorsStayEmpty) {
  const auto f = [](const Tensors& t) {
    const Tensor sum = gelu(relu(add(t[0], t[1])));
    return where(less(sum, t[1]), exp(sum), pow(sum, t[1]));
  };
  check_op({"empty", {doubles({}, {0, 3}), doubles({1, 2, 3}, {3})}, f, {}, {0, 3}, false});
}

TEST(Elementwise, OperatorsTakeNumbersOnEitherSide) {
  const auto f = [](const Tensors& t) {
    const Tensor& x = t[0];
    return (1 + x) * 2 - (3 - x) / 4 + 5 / x + (x + 6) * (x - 7) / 8 + 2 * (-x);
  };
  const auto plain = [](double x) {
    return (1 + x) * 2 - (3 - x) / 4 + 5 / x + (x + 6) * (x - 7) / 8 + 2 * (-x);
  };
  check_op(unary_row(
      "operators", [f](const Tensor& x) { return f({x}); }, plain, spread({7})));
}

TEST(Elementwise, ErrorsNameTheOpAndBothSides) {
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        add(fill({2, 3}, 1), fill({4, 3}, 1));
      },
      {"add: shapes do not broadcast, [2,3] and [4,3]"}));
  EXPECT_TRUE(
      throws<InvalidArgument>([] { mul(fill({2}, 1), fill({2}, 1, DType::float64)); },
                              {"mul: dtypes differ, float32[2] and float64[2]; cast one of them"}));
}

TEST(Elementwise, ErrorsNameTheDtypesThatAreSupported) {
  const Tensor whole = fill({2}, 1, DType::int32);
  const Tensor bytes = fill({2}, 1, DType::uint8);
  const Tensor bools = cast(whole, DType::boolean);
  EXPECT_TRUE(throws<InvalidArgument>([&] { div(whole, whole); },
                                      {"div: int32 is not supported; float32 and float64 are"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] { add(bools, bools); },
      {"add: bool is not supported; float32, float64, int32, int64 and uint8 are"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] { neg(bools); }, {"neg: bool is not supported; float32, float64, int32 and int64 are"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { exp(bytes); }, {"exp: uint8 is not supported"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { exp(whole); }, {"exp: int32 is not supported"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { gelu(whole); }, {"gelu: int32 is not supported"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { less(bools, bools); }, {"less: bool"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { logical_not(whole); },
                                      {"logical_not: int32 is not supported; bool is"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { is_nan(whole); }, {"is_nan: int32"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { clip(bools, 0, 1); }, {"clip: bool"}));
}

}  // namespace
}  // namespace tandem::harness
