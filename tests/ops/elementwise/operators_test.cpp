#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "harness/op_check.h"
#include "harness/throws.h"

namespace tandem::harness {
namespace {

using Bools = std::vector<bool>;
using Floats = std::vector<float>;

const Tensor& ones_and_twos() {
  static const Tensor kTensor = Tensor::from<float>({1, 2, 1, 2}, {2, 2});
  return kTensor;
}

TEST(Operators, ComparisonsAreElementByElement) {
  const Tensor a = Tensor::from<float>({1, 2, 3}, {3});
  const Tensor b = Tensor::from<float>({3, 2, 1}, {3});
  EXPECT_EQ((a < b).to_vector<bool>(), (Bools{true, false, false}));
  EXPECT_EQ((a <= b).to_vector<bool>(), (Bools{true, true, false}));
  EXPECT_EQ((a > b).to_vector<bool>(), (Bools{false, false, true}));
  EXPECT_EQ((a >= b).to_vector<bool>(), (Bools{false, true, true}));
  EXPECT_EQ((a == b).to_vector<bool>(), (Bools{false, true, false}));
  EXPECT_EQ((a != b).to_vector<bool>(), (Bools{true, false, true}));
}

TEST(Operators, BoolsAreJoinedWithoutReadingThem) {
  const auto f = function([](const Tensor& x) { return ((x > 0) & ~(x >= 3)) | (x == -1); });
  const Tensor x = Tensor::from<float>({-2, -1, 0, 1, 2, 3}, {6});
  EXPECT_EQ(f(x).to_vector<bool>(), (Bools{false, true, false, true, true, false}));
  EXPECT_EQ(((x > 0) ^ (x < 2)).to_vector<bool>(), (Bools{true, true, true, false, true, true}));
}

TEST(Operators, AnIfNeedsOneElement) {
  const Tensor one = Tensor::of({2.0f});
  EXPECT_TRUE(one == 2);
  EXPECT_FALSE(one != 2);
  EXPECT_TRUE(bool(one));
  EXPECT_FALSE(bool(zeros({})));
  EXPECT_FALSE(!(one < 3));
  EXPECT_TRUE((one < 3) && (one > 1));
  EXPECT_TRUE(bool(fill({1, 1}, 0.5, DType::float16)));
  EXPECT_TRUE(throws<InvalidArgument>([] { return bool(ones_and_twos() == 1); },
                                      {"bool[2,2]", "reduce_all"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { return bool(zeros({0})); }, {"float32[0]"}));
  EXPECT_TRUE(throws<FailedPrecondition>([] { return bool(Tensor()); }, {"empty"}));
  const auto f = function([](const Tensor& x) { return bool(x > 0) ? x : -x; });
  EXPECT_TRUE(throws<FailedPrecondition>([&] { f(one); }, {"bool", "traced"}));
}

TEST(Operators, AssignmentNamesANewTensor) {
  Tensor a = Tensor::from<float>({1, 2}, {2});
  const Tensor before = a;
  a += 1;
  EXPECT_EQ(a.to_vector<float>(), (Floats{2, 3}));
  a *= a;
  EXPECT_EQ(a.to_vector<float>(), (Floats{4, 9}));
  a -= before;
  EXPECT_EQ(a.to_vector<float>(), (Floats{3, 7}));
  (a /= 2) += 0.5;
  EXPECT_EQ(a.to_vector<float>(), (Floats{2, 4}));
  EXPECT_EQ(before.to_vector<float>(), (Floats{1, 2}));
}

TEST(Operators, AssignmentHasGradientsInFunctionsToo) {
  const auto f = [](const Tensors& t) {
    Tensor sum = t[0];
    for (int i = 0; i < 2; ++i) sum *= t[0];
    sum -= 3 * t[0];
    sum /= 2;
    return sum;
  };
  check_op({"cubes", {doubles({1, 2, -1, 3}, {2, 2})}, f, {-1, 1, 1, 9}, {2, 2}, true, true});
}

TEST(Operators, AssignmentChangesAVariable) {
  const Variable v(Tensor::from<float>({1, 2}, {2}));
  const Variable same = v;
  v += 1;
  EXPECT_EQ(same.value().to_vector<float>(), (Floats{2, 3}));
  v -= Tensor::from<float>({1, 1}, {2});
  v *= 4;
  v /= v;
  EXPECT_EQ(same.value().to_vector<float>(), (Floats{1, 1}));
  const auto f = function([&](const Tensor& x) {
    v += x;
    v *= 2;
    return v.value();
  });
  EXPECT_EQ(f(Tensor::from<float>({1, 2}, {2})).to_vector<float>(), (Floats{4, 6}));
  EXPECT_EQ(f(Tensor::from<float>({0, 1}, {2})).to_vector<float>(), (Floats{8, 14}));
}

TEST(Operators, ANumberFillsAVariable) {
  const Variable v(zeros({2, 2}));
  v.assign(3);
  v.assign_sub(0.5);
  EXPECT_EQ(v.value().to_vector<float>(), (Floats{2.5, 2.5, 2.5, 2.5}));
  const Variable count(Tensor(int64_t{1} << 60));
  count += 1;
  EXPECT_EQ(count.value().item<int64_t>(), (int64_t{1} << 60) + 1);
  EXPECT_TRUE(throws<InvalidArgument>([&] { count += 0.5; }, {"assign_add", "0.5", "int64"}));
}

TEST(Operators, NumbersOfEveryTypeTakeTheDtypeOfTheTensor) {
  const auto check = [](auto number) {
    for (DType dtype : {DType::float32, DType::float64, DType::int32, DType::int64, DType::uint8}) {
      const Tensor x = fill({2}, 3, dtype);
      for (const Tensor& y :
           {x + number, number + x, x - number, x * number, number * x, maximum(x, number),
            minimum(number, x), floor_div(x, number), mod(number, x), squared_difference(x, number),
            where(x > number, x, number), where(number < x, number, x)}) {
        EXPECT_EQ(y.dtype(), dtype);
      }
      for (const Tensor& y : {(x == number), (number != x), (x < number), (number <= x),
                              (x > number), (number >= x), equal(x, number), greater(number, x)}) {
        EXPECT_EQ(y.dtype(), DType::boolean);
      }
      EXPECT_EQ(cast(x + number, DType::int32).template to_vector<int32_t>(),
                (std::vector<int32_t>{4, 4}));
    }
  };
  check(true);
  check('\1');
  check(static_cast<signed char>(1));
  check(uint8_t{1});
  check(short{1});
  check(static_cast<unsigned short>(1));
  check(1);
  check(1U);
  check(1L);
  check(1UL);
  check(1LL);
  check(1ULL);
  check(1.0F);
  check(1.0);
  check(1.0L);
}

TEST(Operators, NamedOpsTakeNumbersToo) {
  const Tensor x = Tensor::from<float>({-1, 4}, {2});
  EXPECT_EQ(pow(x, 2).to_vector<float>(), (Floats{1, 16}));
  EXPECT_EQ(pow(2, x).to_vector<float>(), (Floats{0.5, 16}));
  EXPECT_EQ(maximum(x, 0).to_vector<float>(), (Floats{0, 4}));
  EXPECT_EQ(greater(x, 0.0).to_vector<bool>(), (Bools{false, true}));
  EXPECT_EQ(div(8, x).to_vector<float>(), (Floats{-8, 2}));
  EXPECT_EQ(where(x > 0, 1, x).to_vector<float>(), (Floats{-1, 1}));
  EXPECT_EQ(clip(x, 0, 1).to_vector<float>(), (Floats{0, 1}));
  EXPECT_EQ(logical_and(x > 0, true).to_vector<bool>(), (Bools{false, true}));
  EXPECT_EQ(((x > 0) == false).to_vector<bool>(), (Bools{true, false}));
  EXPECT_EQ(mod(Tensor::of({7, 8}), 3).to_vector<int32_t>(), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ((Tensor::of({7, 8}) % 3).to_vector<int32_t>(), (std::vector<int32_t>{1, 2}));
}

TEST(Operators, NumbersAreConstantsOfAFunctionWithGradients) {
  const auto f = [](const Tensors& t) {
    return where(t[0] > 1, pow(t[0], 3) + 1, maximum(t[0], 0) * 2.5f);
  };
  check_op({"mixed", {doubles({-1, 0.5, 2, 3}, {4})}, f, {0, 1.25, 9, 28}, {4}, true, true});
}

TEST(Operators, WholeNumbersAreExact) {
  const int64_t large = (int64_t{1} << 53) + 1;
  const Tensor x = Tensor::of({int64_t{0}, int64_t{1}});
  EXPECT_EQ((x + large).to_vector<int64_t>(), (std::vector<int64_t>{large, large + 1}));
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(maximum(x, most).to_vector<int64_t>(), (std::vector<int64_t>{most, most}));
}

TEST(Operators, ANumberThatTheDtypeDoesNotHaveIsAnError) {
  const Tensor whole = Tensor::of({1, 2});
  EXPECT_EQ((whole + 2.0).to_vector<int32_t>(), (std::vector<int32_t>{3, 4}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { return whole + 0.5; },
                                      {"add", "0.5", "int32", "whole numbers"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { return maximum(1.5F, whole); }, {"maximum", "1.5"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { return where(whole > 0, whole, NAN); }, {"where"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { return whole * 3'000'000'000; },
                                      {"mul", "3000000000", "int32", "2147483647"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { return whole < INFINITY; }, {"less", "inf"}));
  const Tensor bytes = cast(whole, DType::uint8);
  EXPECT_TRUE(throws<InvalidArgument>([&] { return bytes - 256; }, {"sub", "256", "uint8", "255"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { return bytes == -1; }, {"equal", "-1", "uint8"}));
  const Tensor wide = cast(whole, DType::int64);
  EXPECT_TRUE(throws<InvalidArgument>([&] { return wide + std::numeric_limits<uint64_t>::max(); },
                                      {"18446744073709551615", "int64"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { return (whole > 0) == 2; }, {"equal", "2", "bool"}));
}

TEST(Operators, OfTwoNumbersOneTakesTheDtypeOfTheOther) {
  EXPECT_EQ(tandem::maximum(1, 2).dtype(), DType::int32);
  EXPECT_EQ(add(int64_t{1}, 2).item<int64_t>(), 3);
  EXPECT_EQ(add(1.5, 2).item<double>(), 3.5);
  EXPECT_EQ(add(1.5, 2.0F).item<float>(), 3.5F);
  EXPECT_EQ(add(true, 2).item<int32_t>(), 3);
}

TEST(Operators, ANumberMayWaitForItsTensor) {
  Tensor total = 0;
  for (float loss : {1.5F, 2.5F}) total += Tensor(loss);
  EXPECT_EQ(total.item<float>(), 4);
  const Tensor half = 0.5;
  EXPECT_EQ(half.dtype(), DType::float64);
  const auto f = function([&](const Tensor& x) { return x * half; });
  EXPECT_EQ(f(Tensor::of({1.0F, 3.0F})).to_vector<float>(), (Floats{0.5, 1.5}));
}

TEST(Operators, ANumberThatATapeWatchesHasAGradient) {
  const auto slope = [](const Tensor& x) {
    const Tensor number = 3.0;
    GradientTape tape;
    tape.watch(number);
    return tape.gradient(reduce_sum(x * number * number), number);
  };
  const Tensor x = Tensor::of({1.0F, 2.0F});
  EXPECT_EQ(slope(x).item<double>(), 18);
  EXPECT_EQ(function(slope)(x).item<double>(), 18);
}

TEST(Operators, AnArgumentOfAFunctionHasItsOwnDtypeUnderATapeToo) {
  const auto f = function([](const Tensor& x, const Tensor& y) { return x * y; });
  const Tensor x = Tensor::of({1.0F, 2.0F});
  EXPECT_EQ(f(x, 2.0F).to_vector<float>(), (Floats{2, 4}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { f(x, 2.0); }, {"float32", "float64"}));
  GradientTape tape;
  EXPECT_EQ(f(x, 2.0F).to_vector<float>(), (Floats{2, 4}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { f(x, 2.0); }, {"float32", "float64"}));
}

TEST(Operators, TensorsAreStillNotPromoted) {
  const Tensor a = zeros({2});
  const Tensor b = zeros({2}, DType::float64);
  EXPECT_TRUE(
      throws<InvalidArgument>([&] { return a + b; }, {"add", "float32", "float64", "cast"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { return a < Tensor(1.0); }, {"less", "cast"}));
}

}  // namespace
}  // namespace tandem::harness
