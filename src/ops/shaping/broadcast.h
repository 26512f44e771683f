/// Shape rules shared by the op families.
#pragma once

#include <string_view>
#include <vector>

#include "op/op_def.h"

namespace tandem::ops {

/// The shape that two operands broadcast to. Throws InvalidArgument naming `op` and both.
Shape broadcast_shapes(std::string_view op, const Shape& a, const Shape& b);

/// Sums a gradient over the axes along which `shape` was repeated.
Tensor sum_to_shape(const Tensor& gradient, const Shape& shape);

/// Throws InvalidArgument unless both inputs have one dtype.
void check_same_dtype(const op::Signature& signature);

/// Throws InvalidArgument unless the op's input has a floating dtype.
void check_floating(const op::Signature& signature);

/// An axis counted from the start. Throws InvalidArgument.
int normalized_axis(std::string_view op, int axis, const Shape& shape);

}  // namespace tandem::ops
