/// Distributions from scores.
#pragma once

#include "tandem/tensor.h"

namespace tandem {

/// exp(x) divided by its sum along `axis` (negative: from the end), without overflow. float32 or
/// float64. Where a score is NaN the whole line is. Throws InvalidArgument when `axis` is out of
/// range. Differentiable any number of times. The last axis is the fastest.
TANDEM_API Tensor softmax(const Tensor& x, int axis = -1);

/// log(softmax(x)), exact where softmax(x) would underflow. Otherwise as softmax.
TANDEM_API Tensor log_softmax(const Tensor& x, int axis = -1);

}  // namespace tandem
