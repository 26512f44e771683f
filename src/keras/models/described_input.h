/// The inputs of a model that was described, or that took its shape from its first data.
#pragma once

#include "tandem/function.h"

namespace tandem::keras {

/// `x` as a model takes it whose input is `spec`, as in Keras: with its dtype, and with one axis of
/// size 1 more or less at the end where that gives it the rank. Floating numbers stay floating.
Tensor as_described(const Tensor& x, const TensorSpec& spec);

}  // namespace tandem::keras
