/// Shapes as the ops themselves give them, in which a negative size is never the user's "whatever
/// is left" but always depends on the rows of the batch.
#pragma once

#include "tandem/tensor.h"

namespace tandem::ops {

/// The same elements with exactly this shape.
Tensor with_shape(const Tensor& x, const Shape& shape);

/// Throws InvalidArgument for a shape that is given to `op` with a negative number among its sizes.
void check_decided(const std::string& op, const Shape& shape);

}  // namespace tandem::ops
