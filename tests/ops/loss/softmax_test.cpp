#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "harness/op_check.h"
#include "harness/throws.h"

namespace tandem::harness {
namespace {

/// Line by line from the definition.
std::vector<double> plain_softmax(const Tensor& x, int axis, bool log) {
  auto values = x.to_vector<double>();
  const Shape& shape = x.shape();
  size_t inner = 1;
  for (int i = axis + 1; i < shape.rank(); ++i) inner *= static_cast<size_t>(shape[i]);
  const auto length = static_cast<size_t>(shape[axis]);
  for (size_t line = 0; line * length < values.size(); ++line) {
    double* first = &values[line / inner * inner * length + line % inner];
    double largest = -std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < length; ++i) largest = std::max(largest, first[i * inner]);
    double sum = 0;
    for (size_t i = 0; i < length; ++i) sum += std::exp(first[i * inner] - largest);
    for (size_t i = 0; i < length; ++i) {
      double& value = first[i * inner];
      value = log ? value - largest - std::log(sum) : std::exp(value - largest) / sum;
    }
  }
  return values;
}

OpRow row_of(const Tensor& x, int axis, bool log) {
  return {
      .name =
          (log ? "log_softmax " : "softmax ") + x.shape().str() + " along " + std::to_string(axis),
      .inputs = {x},
      .f = [axis,
            log](const Tensors& t) { return log ? log_softmax(t[0], axis) : softmax(t[0], axis); },
      .expected = plain_softmax(x, axis < 0 ? axis + x.rank() : axis, log),
      .shape = x.shape(),
      .follows_rows = x.rank() > 1 && axis != 0 && axis != -x.rank() && x.shape()[0] > 1};
}

TEST(Softmax, EveryAxis) {
  for (const Shape& shape : {Shape{5}, Shape{4, 10}, Shape{3, 33}, Shape{2, 3, 5}, Shape{2, 9, 17},
                             Shape{3, 1}, Shape{0, 3}, Shape{3, 0}, Shape{2, 0, 3}}) {
    for (int axis = -shape.rank(); axis < shape.rank(); ++axis) {
      check_op(row_of(spread(shape, 3), axis, false));
      check_op(row_of(spread(shape, 3), axis, true));
    }
  }
}

TEST(Softmax, LargeScoresDoNotOverflow) {
  const Tensor x = doubles({1000, -1000, 0, -800, -900, -1000}, {2, 3});
  for (const int axis : {0, 1}) {
    check_op(row_of(x, axis, false));
    check_op(row_of(x, axis, true));
  }
}

TEST(Softmax, NotANumberSpoilsItsLineOnly) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = doubles({1, 2, nan, 1, 2, 3}, {2, 3});
  for (const bool log : {false, true}) {
    auto row = row_of(x, 1, log);
    row.differentiable = false;
    const auto clean = plain_softmax(doubles({1, 2, 3}, {1, 3}), 1, log);
    row.expected = {nan, nan, nan, clean[0], clean[1], clean[2]};
    check_op(row);
  }
}

TEST(Softmax, Float32AgreesWithFloat64) {
  for (const int64_t length : {1, 7, 10, 1000}) {
    const Tensor x = spread({4, length}, 7) * 20.0;
    for (const bool log : {false, true}) {
      const auto exact = plain_softmax(x, 1, log);
      const Tensor single = cast(x, DType::float32);
      const auto got = (log ? log_softmax(single) : softmax(single)).to_vector<float>();
      for (size_t i = 0; i < exact.size(); ++i) {
        EXPECT_NEAR(got[i], exact[i], 1e-5 * std::max(std::abs(exact[i]), log ? 1.0 : 1e-30));
      }
    }
  }
}

TEST(Softmax, SecondDerivatives) {
  for (const int axis : {0, 1}) {
    for (const bool log : {false, true}) {
      const Tensor x = spread({3, 4}, 5);
      const auto gradient = [axis, log](const Tensors& t) {
        GradientTape tape;
        tape.watch(t[0]);
        const Tensor y = log ? log_softmax(t[0], axis) : softmax(t[0], axis);
        return tape.gradient(reduce_sum(y * y * y), Tensors{t[0]})[0];
      };
      // By differences of the plain definition.
      std::vector<double> expected;
      auto values = x.to_vector<double>();
      const auto cubes = [&] {
        double sum = 0;
        for (const double y : plain_softmax(doubles(values, x.shape()), axis, log)) {
          sum += y * y * y;
        }
        return sum;
      };
      for (double& value : values) {
        const double before = value;
        value = before + 1e-5;
        const double above = cubes();
        value = before - 1e-5;
        expected.push_back((above - cubes()) / 2e-5);
        value = before;
      }
      check_op({.name = "gradient",
                .inputs = {x},
                .f = gradient,
                .expected = expected,
                .shape = x.shape(),
                .tolerance = 1e-8});
    }
  }
}

TEST(Softmax, ErrorsNameTheAxis) {
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        softmax(fill({2, 3}, 1), 2);
      },
      {"softmax: axis 2 is out of range for [2,3]"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { log_softmax(fill({}, 1)); },
                                      {"log_softmax: axis -1 is out of range for []"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { softmax(fill({2}, 1, DType::int64)); },
                                      {"softmax: int64 is not supported"}));
}

}  // namespace
}  // namespace tandem::harness
