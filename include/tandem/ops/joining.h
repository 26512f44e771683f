/// Several tensors made one, and one made several. Every dtype; any thread may call them.
#pragma once

#include <cstdint>
#include <vector>

#include "tandem/tensor.h"

namespace tandem {

/// The tensors one after another along an axis, a negative one counted from the end. Requires one
/// tensor or more, of one dtype and, but for that axis, one shape; else throws InvalidArgument.
TANDEM_API Tensor concat(const Tensors& tensors, int axis);

/// Tensors of one dtype and shape along a new axis; a negative one counts from the end of the
/// result. Throws InvalidArgument.
TANDEM_API Tensor stack(const Tensors& tensors, int axis = 0);

/// `x` cut along an axis into equal parts. Throws InvalidArgument when they would not be equal,
/// and, as unstack does, for more than 2^20. The batch axis of a traced function has no size to cut
/// by: the function is then traced for each number of rows.
TANDEM_API Tensors split(const Tensor& x, int parts, int axis = 0);

/// The same with parts of the given sizes, one of which may be -1: what the others leave.
TANDEM_API Tensors split(const Tensor& x, const std::vector<int64_t>& sizes, int axis = 0);

/// The parts of size 1 along an axis, without that axis.
TANDEM_API Tensors unstack(const Tensor& x, int axis = 0);

}  // namespace tandem
