#include "keras/models/described_input.h"

#include "keras/losses/label_shapes.h"
#include "tandem/ops.h"

namespace tandem::keras {
namespace {

bool ends_in_one(const Shape& shape) {
  return shape.rank() > 1 && shape.extent(shape.rank() - 1) == 1;
}

}  // namespace

Tensor as_described(const Tensor& x, const TensorSpec& spec) {
  const bool casts = is_floating(spec.dtype) || !is_floating(x.dtype());
  const Tensor input = casts ? as_dtype(x, spec.dtype) : x;
  const int more = spec.shape.rank() - x.rank();
  if (more == 1 && ends_in_one(spec.shape)) return expand_dims(input, -1);
  if (more == -1 && ends_in_one(x.shape())) return squeeze(input, {-1});
  return input;
}

}  // namespace tandem::keras
