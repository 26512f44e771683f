/// What the losses share with softmax.
#pragma once

#include "tandem/tensor.h"

namespace tandem::ops {

/// The gradient of softmax along `axis`, from that of its result and the result: y (g - sum of g
/// y).
Tensor softmax_grad(const Tensor& g, const Tensor& y, int axis);

}  // namespace tandem::ops
