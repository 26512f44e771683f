/// Rows of tests for functions of single elements, expected by a function of plain numbers.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "harness/op_check.h"

namespace tandem::harness {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

using Unary = std::function<Tensor(const Tensor&)>;
using Binary = std::function<Tensor(const Tensor&, const Tensor&)>;
using PlainUnary = std::function<double(double)>;
using PlainBinary = std::function<double(double, double)>;

/// Values on both sides of zero, or `of` applied to such.
inline Tensor spread_through(
    const Shape& shape, uint64_t seed, const PlainUnary& of = [](double x) { return x; }) {
  std::vector<double> values = spread(shape, seed).to_vector<double>();
  for (double& value : values) value = of(value);
  return doubles(values, shape);
}

inline OpRow unary_row(const std::string& name, const Unary& op, const PlainUnary& plain,
                       const Tensor& x) {
  std::vector<double> expected;
  for (double value : x.to_vector<double>()) expected.push_back(plain(value));
  return {.name = name,
          .inputs = {x},
          .f = [op](const Tensors& t) { return op(t[0]); },
          .expected = expected,
          .shape = x.shape(),
          .follows_rows = x.rank() > 0};
}

/// Both of one shape.
inline OpRow binary_row(const std::string& name, const Binary& op, const PlainBinary& plain,
                        const Tensor& a, const Tensor& b) {
  const auto x = a.to_vector<double>();
  const auto y = b.to_vector<double>();
  std::vector<double> expected;
  for (size_t i = 0; i < x.size(); ++i) expected.push_back(plain(x[i], y[i]));
  return {.name = name,
          .inputs = {a, b},
          .f = [op](const Tensors& t) { return op(t[0], t[1]); },
          .expected = expected,
          .shape = a.shape(),
          .follows_rows = a.rank() > 0};
}

/// At points where there is nothing to differentiate.
inline OpRow at_points(OpRow row) {
  row.differentiable = false;
  return row;
}

/// The derivative of a function as a row of its own: its finite differences check the second.
inline OpRow derivative_row(const std::string& name, const Unary& op, const PlainUnary& derivative,
                            const Tensor& x) {
  const auto slope = [op](const Tensor& at) {
    GradientTape tape;
    tape.watch(at);
    return tape.gradient(reduce_sum(op(at)), Tensors{at})[0];
  };
  return unary_row(name + " derived", slope, derivative, x);
}

}  // namespace tandem::harness
