// Small integers and halves: ops compute with wider ones, and results wrap round or are rounded.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "harness/op_check.h"
#include "harness/throws.h"
#include "tandem/tandem.h"

namespace tandem::harness {
namespace {

/// A function of operands in `dtype`, whose result is float64.
template <class F>
auto in(DType dtype, const F& f) {
  return [=](const Tensors& t) {
    Tensors typed;
    for (const Tensor& x : t) typed.push_back(cast(x, dtype));
    return cast(f(typed), DType::float64);
  };
}

void expect_values(DType dtype, const Tensors& inputs,
                   const std::function<Tensor(const Tensors&)>& f,
                   const std::vector<double>& wanted) {
  const std::string name(name_of(dtype));
  check_op({name,
            inputs,
            in(dtype, [&](const Tensors& t) { return f(t); }),
            wanted,
            {static_cast<int64_t>(wanted.size())},
            false});
}

TEST(Widening, WholeNumbersWrapRound) {
  const Tensors inputs = {doubles({100, 3, 7}, {3}), doubles({100, 2, 5}, {3})};
  const auto sum = [](const Tensors& t) { return t[0] + t[1]; };
  const auto product = [](const Tensors& t) { return t[0] * t[1]; };
  const auto difference = [](const Tensors& t) { return t[1] - t[0]; };
  expect_values(DType::int8, inputs, sum, {-56, 5, 12});
  expect_values(DType::int8, inputs, product, {16, 6, 35});
  expect_values(DType::int16, inputs, product, {10000, 6, 35});
  expect_values(DType::uint16, inputs, difference, {0, 65535, 65534});
  expect_values(DType::uint32, inputs, difference, {0, 4294967295, 4294967294});
  expect_values(DType::uint8, inputs, [](const Tensors& t) { return -t[0]; }, {156, 253, 249});
  expect_values(DType::uint64, inputs, sum, {200, 5, 12});
}

TEST(Widening, HalvesAreRounded) {
  const Tensors inputs = {doubles({1, 2048, 60000}, {3}), doubles({3, 1, 60000}, {3})};
  const auto quotient = [](const Tensors& t) { return t[0] / t[1]; };
  const auto sum = [](const Tensors& t) { return t[0] + t[1]; };
  expect_values(DType::float16, inputs, sum, {4, 2048, HUGE_VAL});
  expect_values(DType::bfloat16, inputs, sum, {4, 2048, 119808});
  expect_values(DType::float16, {inputs[0]}, [](const Tensors& t) { return t[0] * 0.1; },
                {0.0999755859375, 204.75, 6000});
  EXPECT_EQ(quotient({fill({1}, 1, DType::float16), fill({1}, 3, DType::float16)}).dtype(),
            DType::float16);
}

TEST(Widening, OnlyWhatFollowsTheInputsIsNarrow) {
  const Tensor x = cast(doubles({3, 1, 2}, {3}), DType::uint32);
  EXPECT_EQ(argmax(x, 0).dtype(), DType::int64);
  EXPECT_EQ(reduce_max(x).dtype(), DType::uint32);
  EXPECT_EQ(less(x, x).dtype(), DType::boolean);
  const Tensor small = cast(x, DType::int8);
  EXPECT_EQ(one_hot(small, 4, {.dtype = DType::int32}).dtype(), DType::int32);
  EXPECT_EQ(one_hot(small, 4, {.dtype = DType::int8}).to_vector<int8_t>(),
            (std::vector<int8_t>{0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0}));
  EXPECT_EQ(where(less(small, cast(fill({}, 2), DType::int8)), small, small).dtype(), DType::int8);
}

TEST(Widening, GradientsPass) {
  const Tensor x = cast(doubles({1, 2, 3}, {3}), DType::float16);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = reduce_sum(x * x);
  const Tensor gradient = tape.gradient(y, Tensors{x})[0];
  EXPECT_EQ(gradient.dtype(), DType::float16);
  EXPECT_EQ(cast(gradient, DType::float64).to_vector<double>(), (std::vector<double>{2, 4, 6}));
}

TEST(Widening, VariablesAreAddedTo) {
  const Variable counter(Tensor::from(std::vector<int8_t>{100, 1}, {2}), {.name = "counter"});
  counter.assign_add(Tensor::from(std::vector<int8_t>{100, 1}, {2}));
  EXPECT_EQ(counter.value().to_vector<int8_t>(), (std::vector<int8_t>{-56, 2}));
  counter.assign_sub(1);
  EXPECT_EQ(counter.value().to_vector<int8_t>(), (std::vector<int8_t>{-57, 1}));
}

TEST(Widening, OperandsOfDifferentDtypesAreNamed) {
  const auto ones_of = [](DType dtype) { return fill({2}, 1, dtype); };
  EXPECT_TRUE(
      throws<InvalidArgument>([&] { ones_of(DType::float16) + ones_of(DType::float32); },
                              {"add: dtypes differ, float16[2], float32[2]; cast one of them"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { ones_of(DType::int8) + ones_of(DType::int16); },
                                      {"add: dtypes differ, int8[2], int16[2]"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { ones_of(DType::int32) + ones_of(DType::int16); },
                                      {"add: dtypes differ, int32[2]"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { exp(ones_of(DType::int8)); },
                                      {"exp: int8 is not supported; float32 and float64 are"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { ones_of(DType::int8) + 200; },
                                      {"the number 200 beside a tensor of int8", "-128 to 127"}));
}

}  // namespace
}  // namespace tandem::harness
