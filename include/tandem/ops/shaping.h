/// The same elements in another shape, order, number or type. Every dtype; any thread may call
/// them. All throw InvalidArgument, naming the op and the shapes.
#pragma once

#include <cstdint>
#include <vector>

#include "tandem/tensor.h"

namespace tandem {

/// The same elements with another shape. One size may be -1: it is what the others leave.
TANDEM_API Tensor reshape(const Tensor& x, const Shape& shape);

/// The sizes of `x` as a tensor int32[rank] (or int64): in a function they are those of each call,
/// where `x.shape()` may leave the rows of the batch open. No gradient.
TANDEM_API Tensor shape(const Tensor& x, DType dtype = DType::int32);

/// The number of elements of `x`, a scalar like those of shape().
TANDEM_API Tensor size(const Tensor& x, DType dtype = DType::int32);

/// `x` with a new axis of size 1 at `axis`; a negative one counts from the end of the result.
TANDEM_API Tensor expand_dims(const Tensor& x, int axis);

/// `x` without the given axes, which must have size 1; without all such axes if none are given. In
/// a function that reads the rows of the batch where they are among them: see shape.h.
TANDEM_API Tensor squeeze(const Tensor& x, const std::vector<int>& axes = {});

/// Axis i of the result is axis permutation[i] of `x`; with no permutation the axes are reversed.
TANDEM_API Tensor transpose(const Tensor& x, const std::vector<int>& permutation = {});

/// `x` repeated along axes of size 1, and along new leading axes, to fill `shape`.
TANDEM_API Tensor broadcast_to(const Tensor& x, const Shape& shape);

/// `x` laid end to end multiples[axis] times along each axis.
TANDEM_API Tensor tile(const Tensor& x, const std::vector<int64_t>& multiples);

/// To whole numbers, fractions are rounded towards zero, what is too large or too small becomes the
/// largest or smallest of the dtype, and NaN 0, as in XLA (TensorFlow's other CPU kernels differ
/// with the number of elements). Between whole numbers the lowest bits are kept. To bool, all but 0
/// is true. The gradient is cast back.
TANDEM_API Tensor cast(const Tensor& x, DType dtype);

/// `x` as a tensor of its own.
TANDEM_API Tensor identity(const Tensor& x);

/// `x`, through which no gradient flows.
TANDEM_API Tensor stop_gradient(const Tensor& x);

}  // namespace tandem
