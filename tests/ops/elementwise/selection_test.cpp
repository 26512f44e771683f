#include <gtest/gtest.h>

#include <algorithm>

#include "harness/throws.h"
#include "ops/elementwise/elementwise_rows.h"

namespace tandem::harness {
namespace {

Tensor bools(const std::vector<double>& values, const Shape& shape) {
  return cast(doubles(values, shape), DType::boolean);
}

Tensor choose(const Tensors& t) { return where(t[0], t[1], t[2]); }

TEST(Where, TakesEachElementFromOneSide) {
  const Tensor condition = bools({1, 0, 1, 1, 0, 0, 1, 0, 1, 0, 1}, {11});
  const Tensor a = spread({11}, 1);
  const Tensor b = spread({11}, 2);
  const auto x = a.to_vector<double>();
  const auto y = b.to_vector<double>();
  std::vector<double> expected;
  for (size_t i = 0; i < x.size(); ++i) {
    expected.push_back(condition.to_vector<bool>()[i] ? x[i] : y[i]);
  }
  check_op({"where", {condition, a, b}, choose, expected, {11}});
}

TEST(Where, AllThreeBroadcast) {
  const Tensor rows = bools({1, 0}, {2, 1});
  const Tensor columns = bools({1, 0, 1}, {3});
  const Tensor matrix = doubles({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor row = doubles({10, 20, 30}, {3});
  const Tensor one = doubles({7}, {});
  check_op({"rows", {rows, matrix, row}, choose, {1, 2, 3, 10, 20, 30}, {2, 3}});
  check_op({"columns", {columns, one, matrix}, choose, {7, 2, 7, 7, 5, 7}, {2, 3}});
  check_op({"two scalars", {columns, one, doubles({8}, {1})}, choose, {7, 8, 7}, {3}});
  check_op(
      {"one condition", {bools({0}, {}), matrix, row}, choose, {10, 20, 30, 10, 20, 30}, {2, 3}});
}

TEST(Where, OfEveryDtype) {
  for (DType dtype : {DType::float32, DType::float16, DType::bfloat16, DType::uint8, DType::int32,
                      DType::int64, DType::boolean}) {
    const Tensor condition = bools({1, 0, 1}, {3});
    const Tensor a = cast(doubles({1, 1, 0}, {3}), dtype);
    const Tensor b = cast(doubles({0, 0, 1}, {3}), dtype);
    check_op(at_points({std::string(name_of(dtype)), {condition, a, b}, choose, {1, 0, 0}, {3}}));
  }
}

TEST(Where, TheSideNotChosenHasAZeroGradientEvenIfItIsNotFinite) {
  const Tensor x = doubles({kNan, 4, kInf}, {3});
  const Tensor y = doubles({1, kInf, 2}, {3});
  GradientTape tape;
  tape.watch(x);
  tape.watch(y);
  const Tensor chosen = where(bools({0, 1, 0}, {3}), x, y);
  const Tensors g = tape.gradient(reduce_sum(chosen * 3), Tensors{x, y});
  EXPECT_EQ(g[0].to_vector<double>(), (std::vector<double>{0, 3, 0}));
  EXPECT_EQ(g[1].to_vector<double>(), (std::vector<double>{3, 0, 3}));
}

TEST(Where, ErrorsSayWhatIsWrong) {
  const Tensor f = fill({2}, 1);
  EXPECT_TRUE(throws<InvalidArgument>([&] { where(f, f, f); },
                                      {"where: the condition is float32[2], not bool"}));
  const Tensor condition = bools({1, 0}, {2});
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        where(condition, f, doubles({1, 2}, {2}));
      },
      {"where: dtypes differ, float32[2] and float64[2]"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { where(condition, f, fill({3}, 1)); },
                                      {"where: shapes do not broadcast, [2] and [3]"}));
}

TEST(Clip, LimitsValuesAndCutsGradients) {
  const auto f = [](const Tensor& x) { return clip(x, -1, 0.5); };
  const auto plain = [](double x) { return std::clamp(x, -1.0, 0.5); };
  check_op(unary_row("clip", f, plain, spread({5, 3})));
  check_op(derivative_row(
      "clip", f, [](double x) { return x >= -1 && x <= 0.5 ? 1 : 0; }, spread({5, 3})));
  check_op(at_points({"corners",
                      {doubles({kNan, kInf, -kInf}, {3})},
                      [f](const Tensors& t) { return f(t[0]); },
                      {kNan, 0.5, -1},
                      {3}}));
}

TEST(Clip, OfWholeNumbersRoundsTheLimitsInwards) {
  const Tensor x = Tensor::from({int32_t{-9}, 0, 3, 9}, {4});
  EXPECT_EQ(clip(x, -1.5, 4.5).to_vector<int32_t>(), (std::vector<int32_t>{-1, 0, 3, 4}));
  EXPECT_EQ(clip(x, -1e20, 1e20).to_vector<int32_t>(), (std::vector<int32_t>{-9, 0, 3, 9}));
  EXPECT_EQ(clip(cast(x, DType::int64), -kInf, 0).to_vector<int64_t>(),
            (std::vector<int64_t>{-9, 0, 0, 0}));
}

TEST(Clip, LimitsOutOfOrderAreRefused) {
  EXPECT_TRUE(throws<InvalidArgument>([] { clip(fill({2}, 1), 2, 1); },
                                      {"clip: the lower limit 2 is not below 1"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { clip(fill({2}, 1), kNan, 1); }, {"clip: "}));
}

}  // namespace
}  // namespace tandem::harness
