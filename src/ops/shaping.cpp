#include <fmt/format.h>

#include "op/apply.h"
#include "op/registry.h"
#include "ops/broadcast.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem {
namespace ops {
namespace {

/// The target with its negative size computed from the number of elements. That is the same rule
/// for the user's -1 and for a symbolic size, which is a multiple of the rows exactly when the
/// count is.
Shape completed(const Shape& from, const Shape& target) {
  int open = -1;
  int64_t known = 1;
  for (int axis = 0; axis < target.rank(); ++axis) {
    if (target[axis] < 0) {
      open = axis;
    } else {
      known *= target[axis];
    }
  }
  const int64_t count = from.count();
  const bool fits = open < 0 ? known == count : (known == 0 ? count == 0 : count % known == 0);
  if (!fits) {
    throw InvalidArgument(
        fmt::format("reshape: {} elements of {} do not fill {}", count, from.str(), target.str()));
  }
  return open < 0 ? target : target.with(open, known == 0 ? 0 : count / known);
}

op::TensorTypes infer_reshape(const op::Signature& s) {
  return {{s.inputs[0].dtype, completed(s.inputs[0].shape, s.attrs.get<Shape>("shape"))}};
}

Tensors reshape_gradient(const op::Call& call, const Tensors& g) {
  return {reshape(g[0], call.inputs[0].shape())};
}

op::TensorTypes infer_cast(const op::Signature& s) {
  return {{s.attrs.get<DType>("dtype"), s.inputs[0].shape}};
}

Tensors cast_gradient(const op::Call& call, const Tensors& g) {
  const DType from = call.inputs[0].dtype();
  return {is_floating(from) && is_floating(g[0].dtype()) ? cast(g[0], from) : Tensor()};
}

op::TensorTypes infer_fill(const op::Signature& s) {
  return {{s.attrs.get<DType>("dtype"), s.attrs.get<Shape>("shape")}};
}

}  // namespace

void register_shaping(op::Registry& registry) {
  registry.add({.name = "reshape",
                .infer = infer_reshape,
                .split = op::split_rows,
                .gradient = reshape_gradient});
  registry.add(
      {.name = "cast", .infer = infer_cast, .split = op::split_rows, .gradient = cast_gradient});
  registry.add({.name = "fill", .infer = infer_fill, .split = op::split_rows, .no_gradient = true});
}

}  // namespace ops

Tensor reshape(const Tensor& x, const Shape& shape) {
  static const op::OpDef& def = op::find_op("reshape");
  return op::apply_one(def, {x}, {{"shape", shape}});
}

Tensor cast(const Tensor& x, DType dtype) {
  static const op::OpDef& def = op::find_op("cast");
  return x.dtype() == dtype ? x : op::apply_one(def, {x}, {{"dtype", dtype}});
}

Tensor fill(const Shape& shape, double value, DType dtype) {
  static const op::OpDef& def = op::find_op("fill");
  return op::apply_one(def, {}, {{"shape", shape}, {"value", value}, {"dtype", dtype}});
}

}  // namespace tandem
