#include "ops/reduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "op/apply.h"
#include "op/registry.h"
#include "ops/broadcast.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem {
namespace ops {
namespace {

using op::Attrs;
using op::Call;
using op::Signature;
using Axes = std::vector<int64_t>;

bool contains(const Axes& axes, int axis) { return std::ranges::find(axes, axis) != axes.end(); }

/// The shape with the reduced axes kept as 1, or left out.
Shape reduced_shape(const Shape& shape, const Axes& axes, bool keepdims) {
  std::vector<int64_t> sizes;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (!contains(axes, axis)) {
      sizes.push_back(shape[axis]);
    } else if (keepdims) {
      sizes.push_back(1);
    }
  }
  return Shape(sizes);
}

op::TensorTypes infer_reduce(const Signature& s) {
  check_floating(s);
  return {{s.inputs[0].dtype, reduced_shape(s.inputs[0].shape, s.attrs.get<Axes>("axes"),
                                            s.attrs.get<bool>("keepdims"))}};
}

/// By the leading axis of the result. A thread reads its own rows only where that axis is the
/// input's too.
op::Split split_reduce(const Signature& s) {
  const bool leading_kept = !contains(s.attrs.get<Axes>("axes"), 0);
  return {.extent = s.outputs[0].shape.rows(), .aligned = {leading_kept}};
}

Tensor apply_reduce(const Tensor& x, const Axes& axes, bool keepdims, Scale scale,
                    int64_t divisor) {
  static const op::OpDef& def = op::find_op("reduce");
  return op::apply_one(def, {x},
                       {{"axes", axes},
                        {"keepdims", keepdims},
                        {"scale", static_cast<int64_t>(scale)},
                        {"divisor", divisor}});
}

Tensor apply_broadcast(const Tensor& x, const Shape& shape, Scale scale, int64_t divisor) {
  static const op::OpDef& def = op::find_op("broadcast_to");
  return op::apply_one(
      def, {x}, {{"shape", shape}, {"scale", static_cast<int64_t>(scale)}, {"divisor", divisor}});
}

Scale scale_of(const Attrs& attrs) { return static_cast<Scale>(attrs.get<int64_t>("scale")); }

Tensors reduce_gradient(const Call& call, const Tensors& g) {
  const Shape& shape = call.inputs[0].shape();
  const Shape kept = reduced_shape(shape, call.attrs.get<Axes>("axes"), true);
  return {apply_broadcast(reshape(g[0], kept), shape, scale_of(call.attrs),
                          call.attrs.get<int64_t>("divisor"))};
}

op::TensorTypes infer_broadcast(const Signature& s) {
  const Shape& target = s.attrs.get<Shape>("shape");
  if (broadcast_shapes("broadcast_to", s.inputs[0].shape, target) != target) {
    throw InvalidArgument(
        fmt::format("broadcast_to: {} does not fill {}", s.inputs[0].shape.str(), target.str()));
  }
  return {{s.inputs[0].dtype, target}};
}

Tensors broadcast_gradient(const Call& call, const Tensors& g) {
  const Shape& small = call.inputs[0].shape();
  const Shape& large = g[0].shape();
  Axes axes;
  const int extra = large.rank() - small.rank();
  for (int axis = 0; axis < large.rank(); ++axis) {
    if (axis < extra || small[axis - extra] != large[axis]) axes.push_back(axis);
  }
  const Tensor summed =
      apply_reduce(g[0], axes, false, scale_of(call.attrs), call.attrs.get<int64_t>("divisor"));
  return {reshape(summed, small)};
}

op::TensorTypes infer_argmax(const Signature& s) {
  const Shape& shape = s.inputs[0].shape;
  const auto axis = static_cast<int>(s.attrs.get<int64_t>("axis"));
  if (shape[axis] == 0) {
    throw InvalidArgument(fmt::format("argmax: axis {} of {} has no elements", axis, shape.str()));
  }
  return {{DType::int64, shape.without(axis)}};
}

op::Split split_argmax(const Signature& s) {
  const bool leading_kept = s.attrs.get<int64_t>("axis") != 0;
  return {.extent = s.outputs[0].shape.rows(), .aligned = {leading_kept}};
}

Axes axes_of(std::string_view op, const Tensor& x, const ReduceOptions& options) {
  Axes axes(static_cast<size_t>(x.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  if (!options.axes) return axes;
  axes.clear();
  for (int axis : *options.axes) axes.push_back(normalized_axis(op, axis, x.shape()));
  std::ranges::sort(axes);
  if (std::ranges::adjacent_find(axes) != axes.end()) {
    throw InvalidArgument(fmt::format("{}: an axis is given twice", op));
  }
  return axes;
}

}  // namespace

void register_reduction(op::Registry& registry) {
  // With Scale::global_mean both depend on how many rows all replicas have.
  registry.add({.name = "reduce",
                .infer = infer_reduce,
                .split = split_reduce,
                .gradient = reduce_gradient,
                .depends_on_run = true});
  registry.add({.name = "broadcast_to",
                .infer = infer_broadcast,
                .split = op::split_rows,
                .gradient = broadcast_gradient,
                .depends_on_run = true});
  registry.add(
      {.name = "argmax", .infer = infer_argmax, .split = split_argmax, .no_gradient = true});
}

}  // namespace ops

Tensor reduce_sum(const Tensor& x, const ReduceOptions& options) {
  const auto axes = ops::axes_of("reduce_sum", x, options);
  return ops::apply_reduce(x, axes, options.keepdims, ops::Scale::none, 0);
}

Tensor reduce_mean(const Tensor& x, const ReduceOptions& options) {
  const auto axes = ops::axes_of("reduce_mean", x, options);
  return ops::apply_reduce(x, axes, options.keepdims, ops::Scale::mean, 0);
}

Tensor compute_average_loss(const Tensor& per_example_loss) {
  const auto axes = ops::axes_of("compute_average_loss", per_example_loss, {});
  return ops::apply_reduce(per_example_loss, axes, false, ops::Scale::global_mean,
                           per_example_loss.shape().count());
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  return ops::apply_broadcast(x, shape, ops::Scale::none, 0);
}

Tensor argmax(const Tensor& x, int axis) {
  static const op::OpDef& def = op::find_op("argmax");
  return op::apply_one(def, {x},
                       {{"axis", int64_t{ops::normalized_axis("argmax", axis, x.shape())}}});
}

}  // namespace tandem
