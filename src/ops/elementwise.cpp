#include "op/apply.h"
#include "op/registry.h"
#include "ops/broadcast.h"
#include "tandem/ops.h"

namespace tandem {
namespace ops {
namespace {

using op::Call;
using op::OpDef;
using op::Signature;
using op::TensorTypes;

TensorTypes infer_binary(const Signature& s) {
  check_same_dtype(s);
  return {{s.inputs[0].dtype, broadcast_shapes(s.op->name, s.inputs[0].shape, s.inputs[1].shape)}};
}

TensorTypes infer_comparison(const Signature& s) {
  auto types = infer_binary(s);
  types[0].dtype = DType::boolean;
  return types;
}

/// The gradient of one side, brought back to that side's shape, if anybody needs it.
Tensor side(const Call& call, size_t input, const Tensor& gradient) {
  return call.needed[input] ? sum_to_shape(gradient, call.inputs[input].shape()) : Tensor();
}

Tensors add_gradient(const Call& call, const Tensors& g) {
  return {side(call, 0, g[0]), side(call, 1, g[0])};
}

Tensors sub_gradient(const Call& call, const Tensors& g) {
  return {side(call, 0, g[0]), call.needed[1] ? side(call, 1, g[0] * -1.0) : Tensor()};
}

Tensors mul_gradient(const Call& call, const Tensors& g) {
  return {call.needed[0] ? side(call, 0, g[0] * call.inputs[1]) : Tensor(),
          call.needed[1] ? side(call, 1, g[0] * call.inputs[0]) : Tensor()};
}

TensorTypes infer_unary(const Signature& s) { return {s.inputs[0]}; }

Tensors relu_gradient(const Call& call, const Tensors& g) {
  static const OpDef& def = op::find_op("relu_grad");
  return {op::apply_one(def, {g[0], call.outputs[0]})};
}

/// relu_grad(g, y) is linear in g.
Tensors relu_grad_gradient(const Call& call, const Tensors& g) {
  static const OpDef& def = op::find_op("relu_grad");
  return {op::apply_one(def, {g[0], call.inputs[1]}), Tensor()};
}

}  // namespace

void register_elementwise(op::Registry& registry) {
  registry.add({.name = "add",
                .infer = infer_binary,
                .split = op::split_rows,
                .gradient = add_gradient,
                .in_place = true});
  registry.add({.name = "sub",
                .infer = infer_binary,
                .split = op::split_rows,
                .gradient = sub_gradient,
                .in_place = true});
  registry.add({.name = "mul",
                .infer = infer_binary,
                .split = op::split_rows,
                .gradient = mul_gradient,
                .in_place = true});
  registry.add(
      {.name = "equal", .infer = infer_comparison, .split = op::split_rows, .no_gradient = true});
  registry.add({.name = "relu",
                .infer = infer_unary,
                .split = op::split_rows,
                .gradient = relu_gradient,
                .in_place = true});
  registry.add({.name = "relu_grad",
                .infer = infer_binary,
                .split = op::split_rows,
                .gradient = relu_grad_gradient,
                .in_place = true});
}

}  // namespace ops

Tensor add(const Tensor& a, const Tensor& b) {
  static const op::OpDef& def = op::find_op("add");
  return op::apply_one(def, {a, b});
}

Tensor sub(const Tensor& a, const Tensor& b) {
  static const op::OpDef& def = op::find_op("sub");
  return op::apply_one(def, {a, b});
}

Tensor mul(const Tensor& a, const Tensor& b) {
  static const op::OpDef& def = op::find_op("mul");
  return op::apply_one(def, {a, b});
}

Tensor equal(const Tensor& a, const Tensor& b) {
  static const op::OpDef& def = op::find_op("equal");
  return op::apply_one(def, {a, b});
}

Tensor relu(const Tensor& x) {
  static const op::OpDef& def = op::find_op("relu");
  return op::apply_one(def, {x});
}

Tensor scalar_like(double value, const Tensor& tensor) { return fill({}, value, tensor.dtype()); }

}  // namespace tandem
