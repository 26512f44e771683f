#include <gtest/gtest.h>

#include <limits>

#include "harness/op_check.h"
#include "harness/throws.h"

namespace tandem::harness {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Creation, FillHasEveryDtype) {
  EXPECT_EQ(fill({2}, 3, DType::int64).to_vector<int64_t>(), (std::vector<int64_t>{3, 3}));
  EXPECT_EQ(fill({2}, -3, DType::int32).to_vector<int32_t>(), (std::vector<int32_t>{-3, -3}));
  EXPECT_EQ(fill({1}, 200, DType::uint8).to_vector<uint8_t>(), (std::vector<uint8_t>{200}));
  EXPECT_EQ(fill({2}, 0.5, DType::boolean).to_vector<bool>(), (std::vector<bool>{true, true}));
  EXPECT_EQ(fill({}, 0.5).item<float>(), 0.5f);
  EXPECT_EQ(fill({0, 4}, 1).shape().count(), 0);
  for (DType half : {DType::float16, DType::bfloat16}) {
    EXPECT_EQ(cast(fill({}, -1.5, half), DType::float32).item<float>(), -1.5f);
  }
}

TEST(Creation, ZerosAndOnesAreFills) {
  EXPECT_EQ(zeros({2}).to_vector<float>(), (std::vector<float>{0, 0}));
  EXPECT_EQ(ones({2}, DType::int32).to_vector<int32_t>(), (std::vector<int32_t>{1, 1}));
  const auto zero = [](const Tensors& t) { return zeros_like(t[0]); };
  const auto one = [](const Tensors& t) { return ones_like(t[0]); };
  check_op({"zeros", {doubles({5, 6}, {2, 1})}, zero, {0, 0}, {2, 1}, true, true});
  check_op({"ones", {doubles({5, 6}, {2, 1})}, one, {1, 1}, {2, 1}, true, true});
}

TEST(Creation, EyeHasADiagonal) {
  EXPECT_EQ(eye(2).to_vector<float>(), (std::vector<float>{1, 0, 0, 1}));
  EXPECT_EQ(eye(2, 3, DType::int32).to_vector<int32_t>(), (std::vector<int32_t>{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(eye(3, 1).to_vector<float>(), (std::vector<float>{1, 0, 0}));
  EXPECT_EQ(eye(0).shape(), (Shape{0, 0}));
  EXPECT_TRUE(throws<InvalidArgument>([] { eye(-1); }, {"eye: -1 rows"}));
}

TEST(Creation, RangesStopShortOfTheLimit) {
  EXPECT_EQ(range(0, 3).to_vector<float>(), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(range(3, 0, -2, DType::int64).to_vector<int64_t>(), (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(range(0, 1, 0.25, DType::float64).to_vector<double>(),
            (std::vector<double>{0, 0.25, 0.5, 0.75}));
  EXPECT_EQ(range(3, 0).shape(), (Shape{0}));
  EXPECT_TRUE(throws<InvalidArgument>([] { range(0, 3, 0); }, {"range: from 0 to 3 by 0"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { range(0, kInf); }, {"range", "finite"}));
  EXPECT_TRUE(
      throws<InvalidArgument>([] { range(0, 3, 0.5, DType::int32); }, {"range", "0.5", "int32"}));
}

TEST(Creation, RangesAreConstantsOfAProgram) {
  const auto f = [](const Tensors& t) { return t[0] + range(0, 2, 1, t[0].dtype()); };
  check_op({"row", {doubles({5, 6, 7, 8}, {2, 2})}, f, {5, 7, 7, 9}, {2, 2}, true, true});
}

}  // namespace
}  // namespace tandem::harness
