#include <gtest/gtest.h>

#include <cmath>

#include "harness/op_check.h"
#include "harness/throws.h"

namespace tandem::harness {
namespace {

struct Plain {
  std::vector<double> y, mean, variance;
};

/// The result by the definition, with the statistics of `x`.
Plain plain_batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon) {
  const auto values = x.to_vector<double>();
  const auto scale = gamma.to_vector<double>();
  const auto shift = beta.to_vector<double>();
  const size_t channels = scale.size();
  const size_t rows = channels == 0 ? 0 : values.size() / channels;
  Plain result{values, std::vector<double>(channels), std::vector<double>(channels)};
  for (size_t c = 0; c < channels; ++c) {
    for (size_t r = 0; r < rows; ++r) {
      result.mean[c] += values[r * channels + c] / static_cast<double>(rows);
    }
    for (size_t r = 0; r < rows; ++r) {
      const double distance = values[r * channels + c] - result.mean[c];
      result.variance[c] += distance * distance / static_cast<double>(rows);
    }
    for (size_t r = 0; r < rows; ++r) {
      double& y = result.y[r * channels + c];
      y = (y - result.mean[c]) / std::sqrt(result.variance[c] + epsilon) * scale[c] + shift[c];
    }
  }
  return result;
}

TEST(BatchNorm, ResultAndStatistics) {
  for (const Shape& shape : {Shape{4, 3}, Shape{2, 3, 3, 5}, Shape{5, 17}, Shape{1, 4}, Shape{0, 3},
                             Shape{3, 0}, Shape{40, 33}}) {
    const int64_t channels = shape[shape.rank() - 1];
    const Tensors inputs{spread(shape, 1), spread({channels}, 2), spread({channels}, 3)};
    const Plain plain = plain_batch_norm(inputs[0], inputs[1], inputs[2], 0.01);
    const auto part = [](auto which) {
      return [which](const Tensors& t) {
        return which(batch_norm(t[0], t[1], t[2], {.epsilon = 0.01}));
      };
    };
    const bool few = shape.count() < 100;
    check_op({.name = "y " + shape.str(),
              .inputs = inputs,
              .f = part([](const BatchNorm& b) { return b.y; }),
              .expected = plain.y,
              .shape = shape,
              .differentiable = few});
    check_op({.name = "mean " + shape.str(),
              .inputs = inputs,
              .f = part([](const BatchNorm& b) { return b.mean; }),
              .expected = plain.mean,
              .shape = {channels},
              .differentiable = few});
    check_op({.name = "variance " + shape.str(),
              .inputs = inputs,
              .f = part([](const BatchNorm& b) { return b.variance; }),
              .expected = plain.variance,
              .shape = {channels},
              .differentiable = few});
  }
}

/// Losses that use the statistics as well as the result get the gradients of both.
TEST(BatchNorm, GradientsOfResultAndStatisticsAddUp) {
  const Tensors inputs{spread({6, 2}, 1), spread({2}, 2), spread({2}, 3)};
  const Plain plain = plain_batch_norm(inputs[0], inputs[1], inputs[2], 1e-3);
  std::vector<double> expected = plain.y;
  for (size_t i = 0; i < expected.size(); ++i) {
    expected[i] = expected[i] * plain.mean[i % 2] + plain.variance[i % 2];
  }
  check_op({.name = "mixed",
            .inputs = inputs,
            .f =
                [](const Tensors& t) {
                  const BatchNorm b = batch_norm(t[0], t[1], t[2]);
                  return b.y * b.mean + b.variance;
                },
            .expected = expected,
            .shape = {6, 2}});
}

TEST(BatchNorm, SecondDerivatives) {
  const Tensors inputs{spread({5, 2}, 1), spread({2}, 2), spread({2}, 3)};
  for (const size_t by : {0, 1, 2}) {
    const auto gradient = [by](const Tensors& t) {
      GradientTape tape;
      tape.watch(t[by]);
      const Tensor y = batch_norm(t[0], t[1], t[2], {.epsilon = 0.1}).y;
      return tape.gradient(reduce_sum(y * y * y), Tensors{t[by]})[0];
    };
    std::vector<std::vector<double>> plain;
    for (const Tensor& input : inputs) plain.push_back(input.to_vector<double>());
    const auto cubes = [&] {
      double sum = 0;
      for (const double y : plain_batch_norm(doubles(plain[0], {5, 2}), doubles(plain[1], {2}),
                                             doubles(plain[2], {2}), 0.1)
                                .y) {
        sum += y * y * y;
      }
      return sum;
    };
    std::vector<double> expected;
    for (double& value : plain[by]) {
      const double before = value;
      value = before + 1e-5;
      const double above = cubes();
      value = before - 1e-5;
      expected.push_back((above - cubes()) / 2e-5);
      value = before;
    }
    check_op({.name = "gradient by " + std::to_string(by),
              .inputs = inputs,
              .f = gradient,
              .expected = expected,
              .shape = inputs[by].shape(),
              .tolerance = 1e-7});
  }
}

TEST(BatchNorm, InferenceUsesTheGivenStatistics) {
  const Tensor x = spread({4, 3, 2}, 1);
  const Tensors inputs{x, spread({2}, 2), spread({2}, 3), spread({2}, 4), doubles({0.5, 2}, {2})};
  std::vector<double> expected = x.to_vector<double>();
  const auto at = [&](size_t input, size_t c) { return inputs[input].to_vector<double>()[c]; };
  for (size_t i = 0; i < expected.size(); ++i) {
    const size_t c = i % 2;
    expected[i] = (expected[i] - at(3, c)) / std::sqrt(at(4, c) + 1e-3) * at(1, c) + at(2, c);
  }
  check_op(
      {.name = "inference",
       .inputs = inputs,
       .f = [](const Tensors& t) { return batch_norm_inference(t[0], t[1], t[2], t[3], t[4]); },
       .expected = expected,
       .shape = {4, 3, 2}});
}

TEST(BatchNorm, AFarMeanDoesNotSwallowTheVariance) {
  std::vector<float> values;
  for (size_t i = 0; i < 4096; ++i) values.push_back(1e4F + static_cast<float>(i % 4));
  const Tensor ones = fill({1}, 1);
  const BatchNorm b = batch_norm(Tensor::from(values, {4096, 1}), ones, ones);
  EXPECT_NEAR(b.mean.item<float>(), 1e4F + 1.5F, 1e-2);
  EXPECT_NEAR(b.variance.item<float>(), 1.25F, 1e-3);
}

TEST(BatchNorm, ErrorsNameTheShapes) {
  EXPECT_TRUE(throws<InvalidArgument>([] { batch_norm(fill({3}, 1), fill({3}, 1), fill({3}, 1)); },
                                      {"batch_norm: x must be [..,channels], got [3]"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        batch_norm(fill({2, 3}, 1), fill({3}, 1), fill({2}, 1));
      },
      {"batch_norm: beta must be float32[3] for x [2,3], got float32[2]"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        const Tensor c = fill({3}, 1);
        batch_norm_inference(fill({2, 3}, 1), c, c, c, fill({3}, 1, DType::float64));
      },
      {"batch_norm_inference: variance must be float32[3]", "got float64[3]"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        const Tensor c = fill({3}, 1, DType::int32);
        batch_norm(fill({2, 3}, 1, DType::int32), c, c);
      },
      {"batch_norm: int32 is not supported"}));
}

}  // namespace
}  // namespace tandem::harness
