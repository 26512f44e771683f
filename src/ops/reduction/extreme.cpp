// The largest and the smallest, and which of the elements that is.
#include <fmt/format.h>

#include "op/apply.h"
#include "op/registry.h"
#include "ops/reduction/reduction_rules.h"
#include "ops/shaping/broadcast.h"
#include "ops/shaping/exact_shape.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem {
namespace ops {
namespace {

using op::Call;
using op::Signature;

op::TensorTypes infer_extreme(const Signature& s) {
  using enum DType;
  check_dtype(s.op->name, s, {float32, float64, int32, int64, uint8});
  return {{s.inputs[0].dtype, reduced_shape(s)}};
}

op::TensorTypes infer_logical(const Signature& s) {
  check_dtype(s.op->name, s, {DType::boolean});
  return {{DType::boolean, reduced_shape(s)}};
}

/// Elements that tie share the gradient.
Tensors extreme_gradient(const Call& call, const Tensors& g) {
  static const op::OpDef& share = op::find_op("share");
  const Tensor& x = call.inputs[0];
  const auto& axes = call.attrs.get<Axes>("axes");
  const Shape kept = reduced_shape(x.shape(), axes, true);
  const Tensor chosen = cast(equal(x, with_shape(call.outputs[0], kept)), x.dtype());
  const ReduceOptions same{.axes = std::vector<int>(axes.begin(), axes.end()), .keepdims = true};
  return {chosen * (with_shape(g[0], kept) * op::apply_one(share, {reduce_sum(chosen, same)}))};
}

op::TensorTypes infer_share(const Signature& s) {
  check_floating(s);
  return {s.inputs[0]};
}

int axis_of(const op::Attrs& attrs) { return static_cast<int>(attrs.get<int64_t>("axis")); }

op::TensorTypes infer_position(const Signature& s) {
  using enum DType;
  check_dtype(s.op->name, s, {float32, float64, int32, int64, uint8});
  const Shape& shape = s.inputs[0].shape;
  const int axis = axis_of(s.attrs);
  if (shape.extent(axis) == 0) {
    throw InvalidArgument(
        fmt::format("{}: axis {} of {} has no elements", s.op->name, axis, shape.str()));
  }
  return {{int64, shape.without(axis)}};
}

op::Split split_position(const Signature& s) {
  return {.extent = s.outputs[0].shape.leading_extent(), .aligned = {axis_of(s.attrs) != 0}};
}

Tensor reduced(const op::OpDef& def, const Tensor& x, const ReduceOptions& options) {
  return op::apply_one(
      def, {x}, {{"axes", axes_of(def.name, x.shape(), options)}, {"keepdims", options.keepdims}});
}

Tensor position(const op::OpDef& def, const Tensor& x, int axis) {
  return op::apply_one(def, {x}, {{"axis", int64_t{normalized_axis(def.name, axis, x.shape())}}});
}

}  // namespace

void register_extreme(op::Registry& registry) {
  for (const char* name : {"reduce_max", "reduce_min"}) {
    registry.add({.name = name,
                  .infer = infer_extreme,
                  .split = split_reduction,
                  .gradient = extreme_gradient});
  }
  for (const char* name : {"reduce_any", "reduce_all"}) {
    registry.add(
        {.name = name, .infer = infer_logical, .split = split_reduction, .no_gradient = true});
  }
  for (const char* name : {"argmax", "argmin"}) {
    registry.add(
        {.name = name, .infer = infer_position, .split = split_position, .no_gradient = true});
  }
  // What each of n that tie gets: 1 / n, and 0 where there is none, next to NaN. Constant almost
  // everywhere.
  registry.add({.name = "share",
                .infer = infer_share,
                .split = op::split_rows,
                .no_gradient = true,
                .in_place = true});
}

}  // namespace ops

Tensor reduce_max(const Tensor& x, const ReduceOptions& options) {
  static const op::OpDef& def = op::find_op("reduce_max");
  return ops::reduced(def, x, options);
}

Tensor reduce_min(const Tensor& x, const ReduceOptions& options) {
  static const op::OpDef& def = op::find_op("reduce_min");
  return ops::reduced(def, x, options);
}

Tensor reduce_any(const Tensor& x, const ReduceOptions& options) {
  static const op::OpDef& def = op::find_op("reduce_any");
  return ops::reduced(def, x, options);
}

Tensor reduce_all(const Tensor& x, const ReduceOptions& options) {
  static const op::OpDef& def = op::find_op("reduce_all");
  return ops::reduced(def, x, options);
}

Tensor argmax(const Tensor& x, int axis) {
  static const op::OpDef& def = op::find_op("argmax");
  return ops::position(def, x, axis);
}

Tensor argmin(const Tensor& x, int axis) {
  static const op::OpDef& def = op::find_op("argmin");
  return ops::position(def, x, axis);
}

}  // namespace tandem
