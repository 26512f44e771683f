// Arithmetic: ops, gradients and functions. Operands broadcast, so a gradient is summed to the
// shape of its operand (`side`).
#include "ops/elementwise/elementwise_rules.h"
#include "tandem/ops.h"

namespace tandem {
namespace ops {
namespace {

using op::Call;

Tensors add_gradient(const Call& call, const Tensors& g) {
  const auto same = [&] { return g[0]; };
  return {side(call, 0, same), side(call, 1, same)};
}

Tensors sub_gradient(const Call& call, const Tensors& g) {
  return {side(call, 0, [&] { return g[0]; }), side(call, 1, [&] { return -g[0]; })};
}

Tensors mul_gradient(const Call& call, const Tensors& g) {
  return {side(call, 0, [&] { return g[0] * call.inputs[1]; }),
          side(call, 1, [&] { return g[0] * call.inputs[0]; })};
}

Tensors div_gradient(const Call& call, const Tensors& g) {
  const Tensor& b = call.inputs[1];
  return {side(call, 0, [&] { return g[0] / b; }),
          side(call, 1, [&] { return -g[0] * (call.outputs[0] / b); })};
}

Tensors mod_gradient(const Call& call, const Tensors& g) {
  const Tensor& a = call.inputs[0];
  const Tensor& b = call.inputs[1];
  return {side(call, 0, [&] { return g[0]; }),
          side(call, 1, [&] { return -g[0] * floor_div(a, b); })};
}

/// Where b is 0 the derivative by a is 0, also where a^(b - 1) is infinite.
Tensors pow_gradient(const Call& call, const Tensors& g) {
  const Tensor& a = call.inputs[0];
  const Tensor& b = call.inputs[1];
  const auto by_a = [&] { return g[0] * (b * pow(a, where(b == 0, 1, b - 1))); };
  const auto by_b = [&] {
    const Tensor positive = a > 0;
    return g[0] * (call.outputs[0] * where(positive, log(where(positive, a, 1)), 0));
  };
  return {side(call, 0, by_a), side(call, 1, by_b)};
}

/// The gradient goes to each side where it was taken; `first_taken` says where the first was.
template <class Taken>
op::GradientFn choice_gradient(const Taken& first_taken) {
  return [first_taken](const Call& call, const Tensors& g) -> Tensors {
    const Tensor taken = first_taken(call.inputs[0], call.inputs[1]);
    return {side(call, 0, [&] { return where(taken, g[0], 0); }),
            side(call, 1, [&] { return where(taken, 0, g[0]); })};
  };
}

Tensors squared_difference_gradient(const Call& call, const Tensors& g) {
  const auto by_a = [&] { return g[0] * (2 * (call.inputs[0] - call.inputs[1])); };
  const auto by_b = [&] { return g[0] * (2 * (call.inputs[1] - call.inputs[0])); };
  return {side(call, 0, by_a), side(call, 1, by_b)};
}

Tensors neg_gradient(const Call&, const Tensors& g) { return {-g[0]}; }
Tensors abs_gradient(const Call& call, const Tensors& g) { return {g[0] * sign(call.inputs[0])}; }
Tensors square_gradient(const Call& call, const Tensors& g) {
  return {g[0] * (2 * call.inputs[0])};
}

}  // namespace

void register_arithmetic(op::Registry& registry) {
  registry.add(binary_op("add", kNumbers, add_gradient));
  registry.add(binary_op("sub", kNumbers, sub_gradient));
  registry.add(binary_op("mul", kNumbers, mul_gradient));
  registry.add(binary_op("div", kFloating, div_gradient));
  registry.add(binary_op("floor_div", kNumbers));
  registry.add(costly(binary_op("mod", kNumbers, mod_gradient)));
  registry.add(costly(binary_op("pow", kSigned, pow_gradient)));
  registry.add(binary_op("maximum", kNumbers, choice_gradient(greater_equal)));
  registry.add(binary_op("minimum", kNumbers, choice_gradient(less_equal)));
  registry.add(binary_op("squared_difference", kNumbers, squared_difference_gradient));
  registry.add(unary_op("neg", kSigned, neg_gradient));
  registry.add(unary_op("abs", kSigned, abs_gradient));
  registry.add(unary_op("sign", kSigned));
  registry.add(unary_op("square", kSigned, square_gradient));
}

}  // namespace ops

using ops::call;

Tensor add(const Tensor& a, const Tensor& b) { return call<"add">(a, b); }
Tensor sub(const Tensor& a, const Tensor& b) { return call<"sub">(a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return call<"mul">(a, b); }
Tensor div(const Tensor& a, const Tensor& b) { return call<"div">(a, b); }
Tensor floor_div(const Tensor& a, const Tensor& b) { return call<"floor_div">(a, b); }
Tensor mod(const Tensor& a, const Tensor& b) { return call<"mod">(a, b); }
Tensor pow(const Tensor& a, const Tensor& b) { return call<"pow">(a, b); }
Tensor maximum(const Tensor& a, const Tensor& b) { return call<"maximum">(a, b); }
Tensor minimum(const Tensor& a, const Tensor& b) { return call<"minimum">(a, b); }
Tensor squared_difference(const Tensor& a, const Tensor& b) {
  return call<"squared_difference">(a, b);
}
Tensor neg(const Tensor& x) { return call<"neg">(x); }
Tensor abs(const Tensor& x) { return call<"abs">(x); }
Tensor sign(const Tensor& x) { return call<"sign">(x); }
Tensor square(const Tensor& x) { return call<"square">(x); }

Tensor scalar_like(double value, const Tensor& tensor) {
  const DType dtype = tensor.dtype();
  return is_floating(dtype) ? fill({}, value, dtype) : ops::filled("scalar_like", value, dtype);
}

}  // namespace tandem
