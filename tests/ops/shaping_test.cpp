#include <gtest/gtest.h>

#include "harness/op_check.h"

namespace tandem::harness {
namespace {

const std::vector<double> kSix = {1, 2, 3, 4, 5, 6};

TEST(Shaping, ReshapeKeepsTheElements) {
  const auto to = [](const Shape& shape) {
    return [shape](const Tensors& t) { return reshape(t[0], shape); };
  };
  check_op({"flat", {doubles(kSix, {3, 2})}, to({6}), kSix, {6}});
  check_op({"inferred", {doubles(kSix, {3, 2})}, to({-1, 3}), kSix, {2, 3}});
  check_op({"column", {doubles({1, 2}, {2})}, to({-1, 1}), {1, 2}, {2, 1}, true, true});
  check_op({"scalar", {doubles({7}, {1, 1})}, to({}), {7}, {}});
  EXPECT_THROW(reshape(fill({6}, 1), {4}), InvalidArgument);
  EXPECT_THROW(reshape(fill({6}, 1), {-1, 4}), InvalidArgument);
}

TEST(Shaping, CastRoundsLikeC) {
  const auto via = [](DType dtype) {
    return [dtype](const Tensors& t) { return cast(t[0], dtype); };
  };
  const Tensor x = doubles({-1.7, 0.0, 2.5}, {3});
  check_op({"int32", {x}, via(DType::int32), {-1, 0, 2}, {3}, false, true});
  check_op({"int64", {x}, via(DType::int64), {-1, 0, 2}, {3}, false});
  check_op({"bool", {x}, via(DType::boolean), {1, 0, 1}, {3}, false});
  check_op({"float32", {doubles({0.5, -2}, {2})}, via(DType::float32), {0.5, -2}, {2}, false});
}

TEST(Shaping, TheGradientOfACastIsCastBack) {
  const Tensor x = Tensor::from({1.f, 2.f}, {2});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = reduce_sum(cast(x, DType::float64) * 3.0);
  EXPECT_EQ(tape.gradient(y, Tensors{x})[0].to_vector<float>(), (std::vector<float>{3, 3}));
}

TEST(Shaping, FillHasEveryDtype) {
  EXPECT_EQ(fill({2}, 3, DType::int64).to_vector<int64_t>(), (std::vector<int64_t>{3, 3}));
  EXPECT_EQ(fill({2}, 1, DType::boolean).to_vector<bool>(), (std::vector<bool>{true, true}));
  EXPECT_EQ(fill({}, 0.5).item<float>(), 0.5f);
  EXPECT_EQ(fill({0, 4}, 1).shape().count(), 0);
}

}  // namespace
}  // namespace tandem::harness
