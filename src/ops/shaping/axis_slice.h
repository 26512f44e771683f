/// Slices as the other families use them.
#pragma once

#include "tandem/tensor.h"

namespace tandem::ops {

/// Elements [begin, begin + size) of one axis, all of the others. The axis may be the batch's only
/// if it is taken whole.
Tensor part_along(const Tensor& x, int axis, int64_t begin, int64_t size);

}  // namespace tandem::ops
