#include <gtest/gtest.h>

#include <limits>

#include "harness/op_check.h"

namespace tandem::harness {
namespace {

using Axes = std::vector<int>;
const std::vector<double> kSix = {1, 2, 3, 4, 5, 6};

TEST(Reduction, SumsOverAnyAxes) {
  const auto over = [](std::optional<Axes> axes, bool keepdims = false) {
    return [=](const Tensors& t) { return reduce_sum(t[0], {.axes = axes, .keepdims = keepdims}); };
  };
  const Tensor x = doubles(kSix, {3, 2});
  check_op({"all", {x}, over({}), {21}, {}});
  check_op({"columns", {x}, over(Axes{0}), {9, 12}, {2}});
  check_op({"rows", {x}, over(Axes{-1}), {3, 7, 11}, {3}, true, true});
  check_op({"kept", {x}, over(Axes{0}, true), {9, 12}, {1, 2}});
  check_op({"none", {x}, over(Axes{}), kSix, {3, 2}});
  const Tensor cube = doubles({1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2});
  check_op({"outer and inner", {cube}, over(Axes{0, 2}), {14, 22}, {2}});
  check_op({"middle", {cube}, over(Axes{1}), {4, 6, 12, 14}, {2, 2}, true, true});
  check_op({"no rows", {doubles({}, {0, 2})}, over(Axes{0}), {0, 0}, {2}, false});
}

TEST(Reduction, MeansDivideByWhatMeets) {
  const auto f = [](const Tensors& t) { return reduce_mean(t[0], {.axes = Axes{0}}); };
  check_op({"columns", {doubles(kSix, {3, 2})}, f, {3, 4}, {2}});
  const auto all = [](const Tensors& t) { return reduce_mean(t[0]); };
  check_op({"all", {doubles(kSix, {3, 2})}, all, {3.5}, {}});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  check_op({"nothing", {doubles({}, {0})}, all, {nan}, {}, false});
}

TEST(Reduction, TheAverageLossOutsideAStrategyIsTheMean) {
  const auto f = [](const Tensors& t) { return compute_average_loss(t[0]); };
  check_op({"average", {doubles(kSix, {6})}, f, {3.5}, {}});
  check_op({"per token", {doubles(kSix, {3, 2})}, f, {3.5}, {}});
}

TEST(Reduction, BroadcastRepeats) {
  const auto to = [](const Shape& shape) {
    return [shape](const Tensors& t) { return broadcast_to(t[0], shape); };
  };
  check_op({"row", {doubles({1, 2}, {2})}, to({3, 2}), {1, 2, 1, 2, 1, 2}, {3, 2}});
  check_op({"scalar", {doubles({5}, {})}, to({2, 2}), {5, 5, 5, 5}, {2, 2}});
  check_op({"column", {doubles({1, 2}, {2, 1})}, to({2, 3}), {1, 1, 1, 2, 2, 2}, {2, 3}});
  EXPECT_THROW(broadcast_to(fill({3}, 1), {2}), InvalidArgument);
  EXPECT_THROW(broadcast_to(fill({2, 3}, 1), {3}), InvalidArgument);
}

TEST(Reduction, ArgmaxTakesTheFirstOfEquals) {
  const Tensor x = doubles({1, 5, 5, 7, 2, 7}, {2, 3});
  const auto along = [](int axis) {
    return [axis](const Tensors& t) { return argmax(t[0], axis); };
  };
  check_op({"last", {x}, along(-1), {1, 0}, {2}, false, true});
  check_op({"first", {x}, along(0), {1, 0, 1}, {3}, false});
  EXPECT_THROW(argmax(x, 2), InvalidArgument);
  EXPECT_THROW(argmax(fill({2, 0}, 1), 1), InvalidArgument);
}

TEST(Reduction, BadAxesAreNamed) {
  EXPECT_THROW(reduce_sum(fill({2}, 1), {.axes = Axes{1}}), InvalidArgument);
  EXPECT_THROW(reduce_sum(fill({2, 2}, 1), {.axes = Axes{0, -2}}), InvalidArgument);
  EXPECT_THROW(reduce_mean(fill({2}, 1, DType::int32)), InvalidArgument);
}

}  // namespace
}  // namespace tandem::harness
