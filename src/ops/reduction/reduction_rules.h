/// What the reductions have in common: their axes, shapes and splits; and, between reduce and its
/// counterpart broadcast_to, how a sum is scaled.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "op/kernel.h"
#include "tandem/ops/reduction.h"

namespace tandem::ops {

using Axes = std::vector<int64_t>;

/// The axes that a reduction is asked for, counted from the start and sorted. Throws
/// InvalidArgument naming `op`.
Axes axes_of(std::string_view op, const Shape& shape, const ReduceOptions& options);

bool contains(const Axes& axes, int axis);

/// The shape with the reduced axes kept as 1, or left out.
Shape reduced_shape(const Shape& shape, const Axes& axes, bool keepdims);

/// The shape of a call with attributes "axes" and "keepdims".
Shape reduced_shape(const op::Signature& signature);

/// Cuts by the leading axis of the result. A thread reads its own rows only where that axis is the
/// input's too.
op::Split split_reduction(const op::Signature& signature);

/// Throws InvalidArgument naming `op` unless the input has one of `dtypes`.
void check_dtype(std::string_view op, const op::Signature& signature,
                 std::initializer_list<DType> dtypes);

/// Attribute "scale" of reduce and broadcast_to.
enum class Scale : int64_t {
  none = 0,
  mean = 1,         ///< Divides by the number of elements that meet in one.
  global_mean = 2,  ///< Divides by attribute "divisor", over all replicas.
};

/// The factor for Scale::global_mean. A negative divisor is a multiple of the batch's rows.
inline double global_factor(int64_t divisor, const op::StepScalars& step) {
  const auto count = divisor < 0
                         ? static_cast<double>(-divisor) * static_cast<double>(step.global_rows)
                         : static_cast<double>(divisor) * step.replicas;
  return 1.0 / count;
}

}  // namespace tandem::ops
