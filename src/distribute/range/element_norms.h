/// What a parameter server computes of gradients that optimizers clip by norms, on bytes of float32
/// or float64 elements: it has parts of gradients, for which there are no tensors.
#pragma once

#include <cstddef>
#include <span>

#include "tandem/dtype.h"

namespace tandem::distribute {

/// The sum of the squares of the elements.
double squares_of(DType dtype, std::span<const std::byte> elements);

/// What clipping by the norm of all gradients multiplies them by; NaN for an infinite norm, as in
/// Keras.
double scale_of_all(double squares, double limit);

/// What clipping by the norm of one gradient multiplies it by, in its own precision.
double scale_of_one(DType dtype, double squares, double limit);

void multiply(DType dtype, std::span<std::byte> elements, double scale);

}  // namespace tandem::distribute
