/// Tensors whose elements are those of another at places evenly spaced along each axis: what
/// transposes and slices are.
#pragma once

#include <vector>

#include "kernels/nest.h"

namespace tandem::kernels {

struct Strided {
  int64_t base = 0;  ///< Where the first element is in the input.
  Nest<2> loops;  ///< Over the output. Strides of the input, which may be negative; of the output.
};

/// The loops of a call of transpose and of one of strided_slice.
Strided transposed(const op::Signature& s);
Strided sliced(const op::Signature& s);

/// The distances of neighbours along each axis of a tensor that lies in row-major order.
std::vector<int64_t> strides_of(const Shape& shape);

}  // namespace tandem::kernels
