/// One row of a table checks an op in every way there is: values against a reference in plain
/// numbers, gradients against finite differences, and both eager against traced (fused and not,
/// with planned memory and without), on one thread and on three, on the test device; values in
/// float32 and on two replicas.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tandem/tandem.h"

namespace tandem::harness {

struct OpRow {
  std::string name;
  Tensors inputs;  ///< float64 for those with gradients.
  std::function<Tensor(const Tensors&)> f;
  std::vector<double> expected;
  Shape shape{};               ///< The shape of the result.
  bool differentiable = true;  ///< It has a gradient by every float64 input.
  bool follows_rows =
      false;  ///< Row i of the result depends on row i of every input of that many rows only.
  double tolerance = 1e-12;  ///< Relative to the larger of 1 and the expected value.
  /// The tolerance with the float64 inputs cast to float32; 0: no such check.
  double float32_tolerance = 1e-5;
};

/// Fails the running gtest for each way in which the op is wrong.
void check_op(const OpRow& row);

/// A float64 tensor.
Tensor doubles(const std::vector<double>& values, const Shape& shape);

/// Values spread over [-2, 2], no two alike, none within 0.05 of zero.
Tensor spread(const Shape& shape, uint64_t seed = 1);

}  // namespace tandem::harness
