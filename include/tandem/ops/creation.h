/// Tensors made from a few numbers. Any thread may call them.
#pragma once

#include <cstdint>

#include "tandem/tensor.h"

namespace tandem {

/// `value`, converted to the dtype, everywhere. Throws InvalidArgument for a negative size.
TANDEM_API Tensor fill(const Shape& shape, double value, DType dtype = DType::float32);
TANDEM_API Tensor zeros(const Shape& shape, DType dtype = DType::float32);
TANDEM_API Tensor ones(const Shape& shape, DType dtype = DType::float32);

/// Zeros or ones of the shape and dtype of `x`.
TANDEM_API Tensor zeros_like(const Tensor& x);
TANDEM_API Tensor ones_like(const Tensor& x);

/// A matrix with ones on its diagonal; square unless `columns` is given.
TANDEM_API Tensor eye(int64_t rows, int64_t columns = -1, DType dtype = DType::float32);

/// start, start + delta, .. short of `limit`: a vector, empty if the limit is not in that
/// direction. Throws InvalidArgument for a delta of 0, for numbers that are not finite, and for
/// fractions where the dtype is whole.
TANDEM_API Tensor range(double start, double limit, double delta = 1, DType dtype = DType::float32);

}  // namespace tandem
