// where and clip: results that are one or the other of given values.
#include <fmt/format.h>

#include "ops/elementwise/elementwise_rules.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem {
namespace ops {
namespace {

using op::Call;

op::TensorTypes infer_where(const op::Signature& s) {
  const auto& [condition, a, b] = std::tie(s.inputs[0], s.inputs[1], s.inputs[2]);
  if (condition.dtype != DType::boolean) {
    throw InvalidArgument(fmt::format("where: the condition is {}, not bool", condition.str()));
  }
  if (a.dtype != b.dtype) {
    throw InvalidArgument(
        fmt::format("where: dtypes differ, {} and {}; cast one of them", a.str(), b.str()));
  }
  const Shape chosen = broadcast_shapes("where", a.shape, b.shape);
  return {{a.dtype, broadcast_shapes("where", condition.shape, chosen)}};
}

Tensors where_gradient(const Call& call, const Tensors& g) {
  const Tensor& condition = call.inputs[0];
  return {Tensor(), side(call, 1, [&] { return where(condition, g[0], 0); }),
          side(call, 2, [&] { return where(condition, 0, g[0]); })};
}

Tensors clip_gradient(const Call& call, const Tensors& g) {
  return {op::apply_one(op::find_op("clip_grad"), {g[0], call.inputs[0]}, call.attrs)};
}

/// clip_grad(g, x) is g where x is within the limits, else 0: linear in g, flat in x.
Tensors clip_grad_gradient(const Call& call, const Tensors& g) {
  const auto by_g = [&] {
    return op::apply_one(op::find_op("clip_grad"), {g[0], call.inputs[1]}, call.attrs);
  };
  return {side(call, 0, by_g), Tensor()};
}

}  // namespace

void register_selection(op::Registry& registry) {
  registry.add(
      {.name = "where", .infer = infer_where, .split = op::split_rows, .gradient = where_gradient});
  registry.add(unary_op("clip", kSigned, clip_gradient));
  registry.add(binary_op("clip_grad", kFloating, clip_grad_gradient));
}

}  // namespace ops

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  static const op::OpDef& def = op::find_op("where");
  if (!ops::is_number(a) && !ops::is_number(b)) return op::apply_one(def, {condition, a, b});
  const auto [x, y] = ops::matched("where", a, b);
  return op::apply_one(def, {condition, x, y});
}

Tensor clip(const Tensor& x, double low, double high) {
  if (!(low <= high)) {
    throw InvalidArgument(fmt::format("clip: the lower limit {} is not below {}", low, high));
  }
  return ops::call_with<"clip">({{"low", low}, {"high", high}}, x);
}

}  // namespace tandem
