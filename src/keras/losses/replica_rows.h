/// How many rows a replica has of a batch, as tensors: that is known when a step runs only.
#pragma once

#include "tandem/tensor.h"

namespace tandem::keras {

/// A one for each row of `batch`: [rows].
Tensor ones_by_row(const Tensor& batch, DType dtype);

/// A scalar that stands for the whole of this replica's rows, such as their mean, times their part
/// of all rows: the sum over the replicas is the scalar of the whole batch. 0 without rows.
Tensor share_of(const Tensor& scalar, const Tensor& batch);

/// This replica's share of a sum over its rows, which all along Axis::model have.
Tensor share_of_sum(const Tensor& sum);

}  // namespace tandem::keras
