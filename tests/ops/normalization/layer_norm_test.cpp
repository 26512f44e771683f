#include <gtest/gtest.h>

#include <cmath>

#include "harness/op_check.h"
#include "harness/throws.h"

namespace tandem::harness {
namespace {

std::vector<double> plain_layer_norm(std::vector<double> x, const std::vector<double>& gamma,
                                     const std::vector<double>& beta, double epsilon) {
  const size_t length = gamma.size();
  for (size_t first = 0; first < x.size(); first += length) {
    double mean = 0;
    for (size_t i = 0; i < length; ++i) mean += x[first + i] / static_cast<double>(length);
    double variance = 0;
    for (size_t i = 0; i < length; ++i) {
      const double distance = x[first + i] - mean;
      variance += distance * distance / static_cast<double>(length);
    }
    for (size_t i = 0; i < length; ++i) {
      x[first + i] = (x[first + i] - mean) / std::sqrt(variance + epsilon) * gamma[i] + beta[i];
    }
  }
  return x;
}

struct Case {
  Shape shape, line;
  int axis;
};

Tensors inputs_of(const Case& c) {
  return {spread(c.shape, 1), spread(c.line, 2), spread(c.line, 3)};
}

TEST(LayerNorm, LastAxes) {
  const std::vector<Case> cases = {
      {{4, 5}, {5}, -1},         {{2, 3, 4}, {4}, -1}, {{2, 3, 4}, {3, 4}, 1},
      {{2, 3, 4}, {2, 3, 4}, 0}, {{3, 1}, {1}, 1},     {{6}, {6}, 0},
      {{3, 67}, {67}, -1},       {{0, 3}, {3}, -1},    {{3, 0}, {0}, -1},
  };
  for (const Case& c : cases) {
    const Tensors inputs = inputs_of(c);
    check_op(
        {.name = "layer_norm " + c.shape.str() + " from " + std::to_string(c.axis),
         .inputs = inputs,
         .f =
             [axis = c.axis](const Tensors& t) {
               return layer_norm(t[0], t[1], t[2], {.axis = axis, .epsilon = 0.01});
             },
         .expected = plain_layer_norm(inputs[0].to_vector<double>(), inputs[1].to_vector<double>(),
                                      inputs[2].to_vector<double>(), 0.01),
         .shape = c.shape});
  }
}

TEST(LayerNorm, RowsOfReplicasAreTheirOwn) {
  const Case c{{6, 5}, {5}, -1};
  const Tensors inputs = inputs_of(c);
  check_op(
      {.name = "rows",
       .inputs = {inputs[0], inputs[1]},
       .f = [](const Tensors& t) { return layer_norm(t[0], t[1], t[1]); },
       .expected = plain_layer_norm(inputs[0].to_vector<double>(), inputs[1].to_vector<double>(),
                                    inputs[1].to_vector<double>(), 1e-3),
       .shape = c.shape,
       .follows_rows = true});
}

TEST(LayerNorm, ManyLinesOnSeveralThreads) {
  const Case c{{300, 129}, {129}, -1};
  const Tensors inputs = inputs_of(c);
  const auto g = spread(c.shape, 4);
  const auto x = inputs[0].to_vector<double>();
  std::vector<double> ones(129, 1), zeros(129, 0);
  const auto n = plain_layer_norm(x, ones, zeros, 1e-3);
  std::vector<double> expected(129);
  const auto weights = g.to_vector<double>();
  for (size_t i = 0; i < n.size(); ++i) expected[i % 129] += weights[i] * n[i];
  check_op({.name = "gradient of gamma",
            .inputs = inputs,
            .f =
                [weights](const Tensors& t) {
                  GradientTape tape;
                  tape.watch(t[1]);
                  const Tensor y = layer_norm(t[0], t[1], t[2]);
                  return tape.gradient(reduce_sum(y * cast(doubles(weights, y.shape()), y.dtype())),
                                       Tensors{t[1]})[0];
                },
            .expected = expected,
            .shape = {129},
            .differentiable = false,
            .tolerance = 1e-10,
            .float32_tolerance = 2e-5});  // Sums of 300 terms that nearly cancel.
}

TEST(LayerNorm, SecondDerivatives) {
  const Case c{{3, 2, 2}, {2, 2}, 1};
  const Tensors inputs = inputs_of(c);
  for (const size_t by : {0, 1, 2}) {
    const auto gradient = [by](const Tensors& t) {
      GradientTape tape;
      tape.watch(t[by]);
      const Tensor y = layer_norm(t[0], t[1], t[2], {.axis = 1, .epsilon = 0.1});
      return tape.gradient(reduce_sum(y * y * y), Tensors{t[by]})[0];
    };
    std::vector<std::vector<double>> plain;
    for (const Tensor& input : inputs) plain.push_back(input.to_vector<double>());
    const auto cubes = [&] {
      double sum = 0;
      for (const double y : plain_layer_norm(plain[0], plain[1], plain[2], 0.1)) sum += y * y * y;
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

TEST(LayerNorm, AFarMeanDoesNotSwallowTheVariance) {
  std::vector<float> values;
  for (size_t i = 0; i < 256; ++i) values.push_back(1e4F + static_cast<float>(i % 2) * 2);
  const Tensor ones = fill({256}, 1);
  const auto y =
      layer_norm(Tensor::from(values, {1, 256}), ones, fill({256}, 0)).to_vector<float>();
  EXPECT_NEAR(y[0], -1, 1e-2);
  EXPECT_NEAR(y[1], 1, 1e-2);
}

TEST(LayerNorm, ErrorsNameTheShapes) {
  const auto call = [](const Shape& x, const Shape& gamma, const Shape& beta, int axis) {
    return [=] { layer_norm(fill(x, 1), fill(gamma, 1), fill(beta, 1), {.axis = axis}); };
  };
  EXPECT_TRUE(throws<InvalidArgument>(
      call({2, 3}, {2}, {3}, -1),
      {"layer_norm: gamma must be float32[3] for x [2,3], got float32[2]"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      call({2, 3}, {2, 3}, {3}, 0),
      {"layer_norm: beta must be float32[2,3] for x [2,3], got float32[3]"}));
  EXPECT_TRUE(throws<InvalidArgument>(call({2, 3}, {3}, {3}, 2),
                                      {"layer_norm: axis 2 is out of range for [2,3]"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        const Tensor c = fill({3}, 1, DType::int32);
        layer_norm(fill({2, 3}, 1, DType::int32), c, c);
      },
      {"layer_norm: int32 is not supported"}));
}

}  // namespace
}  // namespace tandem::harness
