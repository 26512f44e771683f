/// Tensors that are zero but for some rows: what gather's gradient is. A body that has slices has
/// no memory; whoever needs the elements asks for the whole.
#pragma once

#include "tensor/body.h"

namespace tandem {

/// A tensor of `shape` that is the sum of `values` [n, ..] put at the rows `indices` [n].
Tensor row_sparse(const Shape& shape, const Tensor& indices, const Tensor& values);

/// The tensor with all its elements, computed on the host; itself where it has them. Throws
/// FailedPrecondition while tracing.
Tensor whole(const Tensor& tensor);

}  // namespace tandem
