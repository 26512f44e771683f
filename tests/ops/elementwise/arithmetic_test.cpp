#include <gtest/gtest.h>

#include <cmath>

#include "ops/elementwise/elementwise_rows.h"

namespace tandem::harness {
namespace {

double plain_mod(double a, double b) { return a - std::floor(a / b) * b; }

const Tensor& a() {
  static const Tensor values = spread({5, 3}, 1);
  return values;
}
const Tensor& b() {
  static const Tensor values = spread({5, 3}, 2);
  return values;
}

TEST(Arithmetic, OfTwoTensors) {
  check_op(binary_row(
      "add", add, [](double x, double y) { return x + y; }, a(), b()));
  check_op(binary_row(
      "sub", sub, [](double x, double y) { return x - y; }, a(), b()));
  check_op(binary_row(
      "mul", mul, [](double x, double y) { return x * y; }, a(), b()));
  check_op(binary_row(
      "div", div, [](double x, double y) { return x / y; }, a(), b()));
  check_op(binary_row("mod", mod, plain_mod, a(), b()));
  check_op(binary_row(
      "maximum", maximum, [](double x, double y) { return std::max(x, y); }, a(), b()));
  check_op(binary_row(
      "minimum", minimum, [](double x, double y) { return std::min(x, y); }, a(), b()));
  check_op(binary_row(
      "squared_difference", squared_difference,
      [](double x, double y) { return (x - y) * (x - y); }, a(), b()));
  check_op(at_points(binary_row(
      "floor_div", floor_div, [](double x, double y) { return std::floor(x / y); }, a(), b())));
}

TEST(Arithmetic, OfOneTensor) {
  check_op(unary_row(
      "neg", neg, [](double x) { return -x; }, a()));
  check_op(unary_row(
      "abs", abs, [](double x) { return std::abs(x); }, a()));
  check_op(unary_row(
      "square", square, [](double x) { return x * x; }, a()));
  check_op(unary_row(
      "sign", sign, [](double x) { return x < 0 ? -1 : 1; }, a()));
}

TEST(Arithmetic, PowersOfPositiveAndNegativeNumbers) {
  const Tensor positive = spread_through({5, 3}, 1, [](double x) { return std::abs(x) + 0.1; });
  const auto plain = [](double x, double y) { return std::pow(x, y); };
  check_op(binary_row("pow", pow, plain, positive, b()));
  for (double power : {2.0, 3.0, 0.0, -2.0}) {
    check_op(unary_row(
        "pow " + std::to_string(power),
        [power](const Tensor& x) { return pow(x, scalar_like(power, x)); },
        [power](double x) { return std::pow(x, power); }, a()));
  }
  check_op(derivative_row(
      "pow 3", [](const Tensor& x) { return pow(x, scalar_like(3, x)); },
      [](double x) { return 3 * x * x; }, a()));
  check_op(at_points(binary_row("corners", pow, plain, doubles({0, 0, -8, kNan, 1, -2}, {6}),
                                doubles({0, -1, 1.0 / 3, 1, kNan, 3}, {6}))));
}

/// As TensorFlow: the term with the logarithm is 0 where the base is not positive.
TEST(Arithmetic, GradientsOfPowersAtZeroAreFinite) {
  const Tensor base = doubles({0, 0, -2, 4}, {4});
  const Tensor power = doubles({0, 2, 2, 0.5}, {4});
  GradientTape tape;
  tape.watch(base);
  tape.watch(power);
  const Tensors g = tape.gradient(reduce_sum(pow(base, power)), Tensors{base, power});
  EXPECT_EQ(g[0].to_vector<double>(), (std::vector<double>{0, 0, -4, 0.25}));
  EXPECT_EQ(g[1].to_vector<double>(), (std::vector<double>{0, 0, 0, 2 * std::log(4.0)}));
}

TEST(Arithmetic, NanAndInfinity) {
  const Tensor x = doubles({kNan, 1, -kInf, kInf, kNan}, {5});
  const Tensor y = doubles({1, kNan, 2, kInf, kNan}, {5});
  const auto either = [](auto better) {
    return [better](double p, double q) {
      return std::isnan(p) || std::isnan(q) ? kNan : better(p, q);
    };
  };
  check_op(at_points(binary_row("maximum", maximum,
                                either([](double p, double q) { return std::max(p, q); }), x, y)));
  check_op(at_points(binary_row("minimum", minimum,
                                either([](double p, double q) { return std::min(p, q); }), x, y)));
  check_op(at_points(
      {"sign", {x}, [](const Tensors& t) { return sign(t[0]); }, {kNan, 1, -1, 1, kNan}, {5}}));
  const auto divide = [](const Tensors& t) { return t[0] / t[1]; };
  check_op(at_points({"div by zero",
                      {doubles({1, -1, 0}, {3}), doubles({0, 0, 0}, {3})},
                      divide,
                      {kInf, -kInf, kNan},
                      {3}}));
}

TEST(Arithmetic, GradientOfEqualsGoesToTheFirst) {
  const Tensor x = doubles({1, 2, 3}, {3});
  const Tensor y = doubles({1, 3, 2}, {3});
  const std::vector<std::pair<Binary, std::vector<double>>> ops = {{maximum, {1, 0, 1}},
                                                                   {minimum, {1, 1, 0}}};
  for (const auto& [op, first] : ops) {
    GradientTape tape;
    tape.watch(x);
    tape.watch(y);
    const Tensors g = tape.gradient(reduce_sum(op(x, y)), Tensors{x, y});
    EXPECT_EQ(g[0].to_vector<double>(), first);
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(g[1].to_vector<double>()[i], 1 - first[i]);
  }
}

TEST(Arithmetic, NoGradientPassesRoundingAndSigns) {
  const Tensor x = doubles({0.5, -1.5}, {2});
  for (auto op : {sign, floor, ceil, round}) {
    GradientTape tape;
    tape.watch(x);
    EXPECT_FALSE(tape.gradient(reduce_sum(op(x)), Tensors{x})[0].defined());
  }
  GradientTape tape;
  tape.watch(x);
  EXPECT_FALSE(tape.gradient(reduce_sum(floor_div(x, x)), Tensors{x})[0].defined());
}

template <class T>
std::vector<T> whole(const Binary& op, std::vector<T> x, std::vector<T> y) {
  const Shape shape{static_cast<int64_t>(x.size())};
  return op(Tensor::from(x, shape), Tensor::from(y, shape)).template to_vector<T>();
}

template <class T>
class WholeNumbers : public testing::Test {};
using SignedTypes = testing::Types<int32_t, int64_t>;
TYPED_TEST_SUITE(WholeNumbers, SignedTypes);

TYPED_TEST(WholeNumbers, DivideDownwardsAndNeverTrap) {
  using T = TypeParam;
  using Ts = std::vector<T>;
  constexpr T kLeast = std::numeric_limits<T>::min();
  const Ts x = {7, -7, 7, -7, 6, 5, kLeast, kLeast};
  const Ts y = {2, 2, -2, -2, 3, 0, -1, 1};
  EXPECT_EQ(whole<T>(floor_div, x, y), (Ts{3, -4, -4, 3, 2, 0, kLeast, kLeast}));
  EXPECT_EQ(whole<T>(mod, x, y), (Ts{1, 1, -1, -1, 0, 0, 0, 0}));
}

TYPED_TEST(WholeNumbers, WrapRound) {
  using T = TypeParam;
  using Ts = std::vector<T>;
  constexpr T kLeast = std::numeric_limits<T>::min();
  constexpr T kMost = std::numeric_limits<T>::max();
  EXPECT_EQ(whole<T>(add, {kMost, 3}, {1, 4}), (Ts{kLeast, 7}));
  EXPECT_EQ(whole<T>(sub, {kLeast, 3}, {1, 4}), (Ts{kMost, -1}));
  EXPECT_EQ(whole<T>(mul, {kLeast, 3}, {-1, 4}), (Ts{kLeast, 12}));
  EXPECT_EQ(whole<T>(squared_difference, {1, 5}, {4, 5}), (Ts{9, 0}));
  EXPECT_EQ(whole<T>(maximum, {kLeast, 5}, {4, -5}), (Ts{4, 5}));
  EXPECT_EQ(whole<T>(minimum, {kLeast, 5}, {4, -5}), (Ts{kLeast, -5}));
  EXPECT_EQ(whole<T>(pow, {-3, 2, 0, 5, -1, -1, 0}, {3, 10, 0, -1, -3, -2, -1}),
            (Ts{-27, 1024, 1, 0, -1, 1, 0}));
  const Tensor x = Tensor::from<T>({kLeast, -2, 0, 3}, {4});
  EXPECT_EQ(neg(x).template to_vector<T>(), (Ts{kLeast, 2, 0, -3}));
  EXPECT_EQ(abs(x).template to_vector<T>(), (Ts{kLeast, 2, 0, 3}));
  EXPECT_EQ(sign(x).template to_vector<T>(), (Ts{-1, -1, 0, 1}));
  EXPECT_EQ(square(x).template to_vector<T>(), (Ts{0, 4, 0, 9}));
}

template <class T>
class Subnormal : public testing::Test {};
using FloatingTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(Subnormal, FloatingTypes);

TYPED_TEST(Subnormal, NumbersCountAsZero) {
  using T = TypeParam;
  const T tiny = std::numeric_limits<T>::min() / 2;
  const T inf = std::numeric_limits<T>::infinity();
  const auto applied = [](const Binary& op, const std::vector<T>& a, T b) {
    std::vector<T> result;
    for (int64_t copies : {1, 20}) {
      const Tensor x = tile(Tensor::from(a, {static_cast<int64_t>(a.size())}), {copies});
      result = op(x, Tensor(b)).template to_vector<T>();
      result.resize(a.size());
    }
    return result;
  };
  const std::vector<T> bases = {0, 1, -1, T(0.5), inf, -inf, T(kNan), tiny, -tiny};
  for (T power : {tiny, -tiny, std::numeric_limits<T>::denorm_min()}) {
    EXPECT_EQ(applied(pow, bases, power), std::vector<T>(bases.size(), 1));
  }
  EXPECT_EQ(applied(pow, {tiny, -tiny}, -1), (std::vector<T>{inf, -inf}));
  EXPECT_EQ(applied(pow, {tiny, -tiny}, T(0.5)), (std::vector<T>{0, 0}));
  EXPECT_EQ(applied(pow, {tiny, -tiny}, T(-0.5)), (std::vector<T>{inf, inf}));
  for (T rest : applied(mod, {1, -2, 3}, tiny)) EXPECT_TRUE(std::isnan(rest));
  EXPECT_EQ(applied(mod, {tiny, -tiny}, 3), (std::vector<T>{0, 0}));
}

TEST(Bytes, WrapRoundAndBroadcast) {
  using Bytes = std::vector<uint8_t>;
  EXPECT_EQ(whole<uint8_t>(add, {250, 1}, {10, 2}), (Bytes{4, 3}));
  EXPECT_EQ(whole<uint8_t>(sub, {1, 9}, {2, 2}), (Bytes{255, 7}));
  EXPECT_EQ(whole<uint8_t>(floor_div, {7, 9}, {2, 0}), (Bytes{3, 0}));
  EXPECT_EQ(whole<uint8_t>(mod, {7, 9}, {4, 0}), (Bytes{3, 0}));
  const Tensor row = Tensor::from(Bytes{1, 2, 3}, {3});
  EXPECT_EQ(maximum(row, Tensor(uint8_t{2})).to_vector<uint8_t>(), (Bytes{2, 2, 3}));
  EXPECT_EQ(sub(Tensor(uint8_t{2}), row).to_vector<uint8_t>(), (Bytes{1, 0, 255}));
}

}  // namespace
}  // namespace tandem::harness
