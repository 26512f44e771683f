// softmax and log_softmax along any axis. Their gradients are functions of the result, so that the
// input need not be kept.
#include "tandem/ops/softmax.h"

#include "op/apply.h"
#include "op/registry.h"
#include "ops/loss/softmax_grad.h"
#include "ops/shaping/broadcast.h"
#include "tandem/ops.h"

namespace tandem {
namespace ops {
namespace {

using op::Call;
using op::Signature;

op::TensorTypes infer(const Signature& s) {
  check_floating(s);
  return {s.inputs[0]};
}

/// The work is cut by lines along the axis, as many as lie one after another. Along the first axis
/// the lines lie side by side and threads would have to write columns: one thread does them all.
op::Split split(const Signature& s) {
  const Shape& shape = s.outputs[0].shape;
  int64_t before = 1;
  for (int axis = 0; axis < s.attrs.get<int64_t>("axis"); ++axis) before *= shape.extent(axis);
  return {.extent = before, .aligned = std::vector<bool>(s.inputs.size(), true)};
}

/// An exponential counts for about ten operations.
double flops(const Signature& s) {
  return 10 * static_cast<double>(s.outputs[0].shape.total_extent());
}

op::Attrs attrs_of(int axis) { return {{"axis", int64_t{axis}}}; }
int axis_of(const Call& call) { return static_cast<int>(call.attrs.get<int64_t>("axis")); }

Tensor sum_along(const Tensor& x, int axis) {
  return reduce_sum(x, {.axes = {{axis}}, .keepdims = true});
}

Tensor log_softmax_grad(const Tensor& g, const Tensor& y, int axis) {
  static const op::OpDef& def = op::find_op("log_softmax_grad");
  return op::apply_one(def, {g, y}, attrs_of(axis));
}

Tensors softmax_gradient(const Call& call, const Tensors& g) {
  return {softmax_grad(g[0], call.outputs[0], axis_of(call))};
}

/// The gradient of r = y (g - sum of g y).
Tensors softmax_grad_gradient(const Call& call, const Tensors& h) {
  const Tensor& g = call.inputs[0];
  const Tensor& y = call.inputs[1];
  const int axis = axis_of(call);
  Tensors result(2);
  if (call.needed[0]) result[0] = softmax_grad(h[0], y, axis);
  if (call.needed[1]) {
    result[1] = h[0] * (g - sum_along(g * y, axis)) - g * sum_along(h[0] * y, axis);
  }
  return result;
}

Tensors log_softmax_gradient(const Call& call, const Tensors& g) {
  return {log_softmax_grad(g[0], call.outputs[0], axis_of(call))};
}

/// The gradient of r = g - exp(y) (sum of g). The softmax of a log_softmax is its exponential.
Tensors log_softmax_grad_gradient(const Call& call, const Tensors& h) {
  const int axis = axis_of(call);
  const Tensor weighted = h[0] * softmax(call.inputs[1], axis);
  return {call.needed[0] ? h[0] - sum_along(weighted, axis) : Tensor(),
          call.needed[1] ? weighted * sum_along(call.inputs[0], axis) * -1.0 : Tensor()};
}

}  // namespace

Tensor softmax_grad(const Tensor& g, const Tensor& y, int axis) {
  static const op::OpDef& def = op::find_op("softmax_grad");
  return op::apply_one(def, {g, y}, attrs_of(axis));
}

void register_softmax(op::Registry& registry) {
  const auto add = [&](const char* name, op::GradientFn gradient) {
    registry.add({.name = name,
                  .infer = infer,
                  .split = split,
                  .gradient = std::move(gradient),
                  .flops = flops,
                  .in_place = true});
  };
  add("softmax", softmax_gradient);
  add("softmax_grad", softmax_grad_gradient);
  add("log_softmax", log_softmax_gradient);
  add("log_softmax_grad", log_softmax_grad_gradient);
}

}  // namespace ops

Tensor softmax(const Tensor& x, int axis) {
  static const op::OpDef& def = op::find_op("softmax");
  return op::apply_one(def, {x}, ops::attrs_of(ops::normalized_axis("softmax", axis, x.shape())));
}

Tensor log_softmax(const Tensor& x, int axis) {
  static const op::OpDef& def = op::find_op("log_softmax");
  return op::apply_one(def, {x},
                       ops::attrs_of(ops::normalized_axis("log_softmax", axis, x.shape())));
}

}  // namespace tandem
