#include <gtest/gtest.h>

#include "harness/op_check.h"
#include "harness/throws.h"

namespace tandem::harness {
namespace {

using Numbers = std::vector<int64_t>;
using Paddings = std::vector<std::pair<int64_t, int64_t>>;

const std::vector<double> kTwelve = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

auto sliced(const Numbers& begin, const Numbers& size) {
  return [=](const Tensors& t) { return slice(t[0], begin, size); };
}

auto strided(const std::vector<Stride>& strides) {
  return [=](const Tensors& t) { return strided_slice(t[0], strides); };
}

auto padded(const Paddings& paddings, double value = 0) {
  return [=](const Tensors& t) { return pad(t[0], paddings, {.value = value}); };
}

TEST(Slicing, SlicesAreBlocks) {
  const Tensor x = doubles(kTwelve, {3, 4});
  check_op({"columns", {x}, sliced({0, 1}, {-1, 2}), {2, 3, 6, 7, 10, 11}, {3, 2}, true, true});
  check_op({"rows", {x}, sliced({1, 0}, {2, -1}), {5, 6, 7, 8, 9, 10, 11, 12}, {2, 4}});
  check_op({"block", {x}, sliced({1, 1}, {1, 3}), {6, 7, 8}, {1, 3}});
  check_op({"nothing", {x}, sliced({3, 0}, {0, 4}), {}, {0, 4}, false});
  check_op({"to the end", {x}, sliced({0, 3}, {-1, -1}), {4, 8, 12}, {3, 1}, true, true});
  check_op({"whole", {x}, sliced({0, 0}, {-1, -1}), kTwelve, {3, 4}, true, true});
  check_op({"scalar", {doubles({7}, {})}, sliced({}, {}), {7}, {}});
  const Tensor cube = doubles(kTwelve, {2, 3, 2});
  check_op({"middle",
            {cube},
            sliced({0, 1, 0}, {-1, 2, -1}),
            {3, 4, 5, 6, 9, 10, 11, 12},
            {2, 2, 2},
            true,
            true});
}

TEST(Slicing, StridesStepAsInPython) {
  const Tensor x = doubles(kTwelve, {3, 4});
  const Stride all{};
  check_op(
      {"every second", {x}, strided({all, {.step = 2}}), {1, 3, 5, 7, 9, 11}, {3, 2}, true, true});
  check_op({"reversed",
            {x},
            strided({all, {.step = -1}}),
            {4, 3, 2, 1, 8, 7, 6, 5, 12, 11, 10, 9},
            {3, 4},
            true,
            true});
  check_op({"rows reversed", {x}, strided({{.step = -2}}), {9, 10, 11, 12, 1, 2, 3, 4}, {2, 4}});
  check_op({"from the end", {x}, strided({{.begin = -1}}), {9, 10, 11, 12}, {1, 4}});
  check_op({"short of the end",
            {x},
            strided({all, {.begin = 1, .end = -1}}),
            {2, 3, 6, 7, 10, 11},
            {3, 2},
            true,
            true});
  check_op({"beyond", {x}, strided({{.begin = -9, .end = 9}}), kTwelve, {3, 4}});
  check_op({"back by three",
            {x},
            strided({all, {.begin = 9, .end = 0, .step = -3}}),
            {4, 8, 12},
            {3, 1},
            true,
            true});
  check_op({"wrong way", {x}, strided({{.begin = 2, .end = 1}}), {}, {0, 4}, false});
  check_op({"no strides", {x}, strided({}), kTwelve, {3, 4}, true, true});
  check_op({"both", {x}, strided({{.step = 2}, {.begin = 3, .step = -2}}), {4, 2, 12, 10}, {2, 2}});
  check_op({"of nothing", {doubles({}, {2, 0})}, strided({all, {.step = -1}}), {}, {2, 0}, false});
}

TEST(Slicing, PaddingSurrounds) {
  const Tensor x = doubles({1, 2, 3, 4}, {2, 2});
  check_op({"columns",
            {x},
            padded({{0, 0}, {1, 2}}),
            {0, 1, 2, 0, 0, 0, 3, 4, 0, 0},
            {2, 5},
            true,
            true});
  check_op({"rows", {x}, padded({{1, 1}, {0, 0}}, 9), {9, 9, 1, 2, 3, 4, 9, 9}, {4, 2}});
  check_op({"corner", {x}, padded({{0, 1}, {1, 0}}, -1), {-1, 1, 2, -1, 3, 4, -1, -1, -1}, {3, 3}});
  check_op({"nothing", {x}, padded({{0, 0}, {0, 0}}), {1, 2, 3, 4}, {2, 2}, true, true});
  check_op({"around nothing",
            {doubles({}, {0, 2})},
            padded({{1, 0}, {0, 0}}, 5),
            {5, 5},
            {1, 2},
            false});
  check_op({"middle",
            {doubles({1, 2, 3, 4}, {2, 1, 2})},
            padded({{0, 0}, {1, 0}, {0, 0}}),
            {0, 0, 1, 2, 0, 0, 3, 4},
            {2, 2, 2},
            true,
            true});
}

TEST(Slicing, EveryDtypeIsCutAndPadded) {
  const Tensor x = doubles({0, 1, 1, 0, 1, 1}, {2, 3});
  for (DType dtype : {DType::float32, DType::float16, DType::bfloat16, DType::uint8, DType::int32,
                      DType::int64, DType::boolean}) {
    const std::string name(name_of(dtype));
    const auto cut = [dtype](const Tensors& t) {
      return strided_slice(cast(t[0], dtype), {{}, {.step = -2}});
    };
    check_op({name, {x}, cut, {1, 0, 1, 0}, {2, 2}, false});
    const auto surround = [dtype](const Tensors& t) {
      return pad(cast(t[0], dtype), {{0, 0}, {0, 1}}, {.value = 1});
    };
    check_op({name, {x}, surround, {0, 1, 1, 1, 0, 1, 1, 1}, {2, 4}, false});
  }
}

/// The second derivative goes back through both ops.
TEST(Slicing, GradientsHaveGradients) {
  const auto f = [](const Tensors& t) {
    GradientTape tape;
    tape.watch(t[0]);
    const Tensor part = strided_slice(t[0], {{.step = -2}});
    const Tensor whole = pad(part * part * part, {{1, 0}});
    return tape.gradient(reduce_sum(whole), Tensors{t[0]})[0];
  };
  check_op({"cubes", {doubles({1, 2, 3}, {3})}, f, {3, 0, 27}, {3}});
}

TEST(Slicing, ABatchAxisStaysWholeOrIsTracedAnew) {
  const auto untouched = function([](const Tensor& x) { return slice(x, {0, 1}, {-1, 1}); });
  EXPECT_EQ(untouched(doubles({1, 2, 3, 4}, {2, 2})).to_vector<double>(),
            (std::vector<double>{2, 4}));
  EXPECT_EQ(untouched(doubles({1, 2}, {1, 2})).to_vector<double>(), (std::vector<double>{2}));
  EXPECT_EQ(untouched.trace_count(), 1);
  const auto cut = function([](const Tensor& x) { return slice(x, {1, 0}, {1, -1}); });
  EXPECT_EQ(cut(doubles({1, 2, 3, 4}, {2, 2})).to_vector<double>(), (std::vector<double>{3, 4}));
}

TEST(Slicing, WhatIsOutsideIsNamed) {
  const Tensor x = fill({2, 3}, 1);
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        slice(x, {0, 2}, {2, 2});
      },
      {"slice: begin [0,2] and size [2,2]", "[2,3]"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { slice(x, {0, -1}, {2, 1}); }, {"slice: begin [0,-1]"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { slice(x, {0, 4}, {2, -1}); }, {"slice: begin [0,4]"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { slice(x, {0}, {1}); }, {"slice: 1 entries for [2,3]"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { strided_slice(x, {{.step = 0}}); },
                                      {"strided_slice", "axis 0 is 0"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        strided_slice(x, {{}, {}, {}});
      },
      {"strided_slice: 3 strides for [2,3]"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { pad(x, {{0, 0}}); }, {"pad: 1 entries for [2,3]"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        pad(x, {{0, 0}, {-1, 0}});
      },
      {"pad: -1 and 0", "axis 1 of [2,3]"}));
}

}  // namespace
}  // namespace tandem::harness
