#include "keras/losses/replica_rows.h"

#include <numeric>

#include "collective/collective.h"
#include "keras/losses/label_shapes.h"
#include "tandem/ops.h"

namespace tandem::keras {

Tensor ones_by_row(const Tensor& batch, DType dtype) {
  if (batch.rank() == 1) return ones_like(as_dtype(batch, dtype));
  std::vector<Stride> first(static_cast<size_t>(batch.rank()), {.begin = 0, .end = 1});
  first[0] = {};
  std::vector<int> axes(static_cast<size_t>(batch.rank() - 1));
  std::iota(axes.begin(), axes.end(), 1);
  return ones_like(as_dtype(squeeze(strided_slice(batch, first), axes), dtype));
}

Tensor share_of(const Tensor& scalar, const Tensor& batch) {
  if (collective::group_size() == 1) return scalar;
  const Tensor part = compute_average_loss(ones_by_row(batch, scalar.dtype()));
  const Tensor has_rows = greater(part, zeros_like(part));
  return where(has_rows, scalar, zeros_like(scalar)) * part;
}

Tensor share_of_sum(const Tensor& sum) {
  const int replicas = collective::group_size(collective::Axis::model);
  return replicas == 1 ? sum : sum * (1.0 / replicas);
}

}  // namespace tandem::keras
