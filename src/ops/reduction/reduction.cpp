// Sums over axes and their opposite, the broadcast: each is the gradient of the other. Both have a
// scale, so that a mean, also one over the rows of all replicas, is one pass. Variances and
// logsumexp are composed; extremes and products have files of their own.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "op/apply.h"
#include "op/registry.h"
#include "op/row_sharing.h"
#include "ops/reduction/reduction_rules.h"
#include "ops/shaping/broadcast.h"
#include "ops/shaping/exact_shape.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem {
namespace ops {

bool contains(const Axes& axes, int axis) { return std::ranges::find(axes, axis) != axes.end(); }

Shape reduced_shape(const Shape& shape, const Axes& axes, bool keepdims) {
  std::vector<int64_t> sizes;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (!contains(axes, axis)) {
      sizes.push_back(shape.extent(axis));
    } else if (keepdims) {
      sizes.push_back(1);
    }
  }
  return Shape(sizes);
}

Shape reduced_shape(const op::Signature& s) {
  return reduced_shape(s.inputs[0].shape, s.attrs.get<Axes>("axes"), s.attrs.get<bool>("keepdims"));
}

op::Split split_reduction(const op::Signature& s) {
  const bool leading_kept = !contains(s.attrs.get<Axes>("axes"), 0);
  return {.extent = s.outputs[0].shape.leading_extent(), .aligned = {leading_kept}};
}

Axes axes_of(std::string_view op, const Shape& shape, const ReduceOptions& options) {
  Axes axes(static_cast<size_t>(shape.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  if (!options.axes.given()) return axes;
  axes.clear();
  for (int axis : options.axes.list()) axes.push_back(normalized_axis(op, axis, shape));
  std::ranges::sort(axes);
  if (std::ranges::adjacent_find(axes) != axes.end()) {
    throw InvalidArgument(fmt::format("{}: axes [{}] of {} name one twice", op,
                                      fmt::join(options.axes.list(), ","), shape.str()));
  }
  return axes;
}

void check_dtype(std::string_view op, const op::Signature& s, std::initializer_list<DType> dtypes) {
  if (std::ranges::find(dtypes, s.inputs[0].dtype) != dtypes.end()) return;
  std::vector<std::string_view> names;
  for (DType dtype : dtypes) names.push_back(name_of(dtype));
  throw InvalidArgument(fmt::format("{}: {} is not supported; {} {}", op,
                                    name_of(s.inputs[0].dtype), fmt::join(names, ", "),
                                    names.size() == 1 ? "is" : "are"));
}

namespace {

using op::Attrs;
using op::Call;
using op::Signature;

Scale scale_of(const Attrs& attrs) { return static_cast<Scale>(attrs.get<int64_t>("scale")); }

op::TensorTypes infer_reduce(const Signature& s) {
  using enum DType;
  if (scale_of(s.attrs) == Scale::none) {
    check_dtype("reduce_sum", s, {float32, float64, int32, int64});
  } else {
    check_dtype("reduce_mean", s, {float32, float64});
  }
  return {{s.inputs[0].dtype, reduced_shape(s)}};
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

Tensors reduce_gradient(const Call& call, const Tensors& g) {
  const Shape& shape = call.inputs[0].shape();
  const Shape kept = reduced_shape(shape, call.attrs.get<Axes>("axes"), true);
  return {apply_broadcast(with_shape(g[0], kept), shape, scale_of(call.attrs),
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
    if (axis < extra || small.extent(axis - extra) != large.extent(axis)) axes.push_back(axis);
  }
  const Tensor summed =
      apply_reduce(g[0], axes, false, scale_of(call.attrs), call.attrs.get<int64_t>("divisor"));
  return {with_shape(summed, small)};
}

}  // namespace

void register_reduction(op::Registry& registry) {
  // With Scale::global_mean both depend on how many rows all replicas have.
  registry.add({.name = "reduce",
                .infer = infer_reduce,
                .split = split_reduction,
                .gradient = reduce_gradient,
                .depends_on_run = true});
  registry.add({.name = "broadcast_to",
                .infer = infer_broadcast,
                .split = op::split_rows,
                .gradient = broadcast_gradient,
                .depends_on_run = true});
}

}  // namespace ops

Tensor reduce_sum(const Tensor& x, const ReduceOptions& options) {
  const auto axes = ops::axes_of("reduce_sum", x.shape(), options);
  return ops::apply_reduce(x, axes, options.keepdims, ops::Scale::none, 0);
}

Tensor reduce_mean(const Tensor& x, const ReduceOptions& options) {
  const auto axes = ops::axes_of("reduce_mean", x.shape(), options);
  return ops::apply_reduce(x, axes, options.keepdims, ops::Scale::mean, 0);
}

Tensor reduce_variance(const Tensor& x, const ReduceOptions& options) {
  const Tensor distance = x - reduce_mean(x, {.axes = options.axes, .keepdims = true});
  return reduce_mean(distance * distance, options);
}

Tensor reduce_std(const Tensor& x, const ReduceOptions& options) {
  return sqrt(reduce_variance(x, options));
}

/// The exponents are taken from the largest element, where that is a number: what is subtracted
/// cancels in the gradient.
Tensor reduce_logsumexp(const Tensor& x, const ReduceOptions& options) {
  const auto axes = ops::axes_of("reduce_logsumexp", x.shape(), options);
  const ReduceOptions kept{.axes = options.axes, .keepdims = true};
  const Tensor largest = stop_gradient(reduce_max(x, kept));
  const Tensor base = where(is_finite(largest), largest, zeros_like(largest));
  const Tensor result = log(reduce_sum(exp(x - base), kept)) + base;
  return options.keepdims ? result
                          : ops::with_shape(result, ops::reduced_shape(x.shape(), axes, false));
}

Tensor compute_average_loss(const Tensor& per_example_loss) {
  const auto axes = ops::axes_of("compute_average_loss", per_example_loss.shape(), {});
  const int64_t elements = per_example_loss.shape().total_extent();
  // What follows the batch is divided by the rows of all, each as often as replicas have it;
  // anything else is divided by the number of all replicas.
  const int64_t divisor = elements < 0 ? elements * op::replicas_of_a_row() : elements;
  return ops::apply_reduce(per_example_loss, axes, false, ops::Scale::global_mean, divisor);
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  ops::check_decided("broadcast_to", shape);
  return ops::apply_broadcast(x, shape, ops::Scale::none, 0);
}

}  // namespace tandem
