/// Products of matrices, one or many at once.
#pragma once

#include "tandem/tensor.h"

namespace tandem {

struct MatmulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
};

/// The product of the matrices in the last two axes of `a` [.., m, k] and `b` [.., k, n], each
/// transposed first if so asked: a tensor [.., m, n]. The axes before those count matrices and
/// broadcast as in NumPy; [batch, m, k] times [k, n] is one large product. Both sides have the same
/// dtype, float32 or float64. A product of which k is 0 is 0. Throws InvalidArgument when a side
/// is no matrix, the inner sizes differ, or the batch axes do not broadcast.
TANDEM_API Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options = {});

}  // namespace tandem
