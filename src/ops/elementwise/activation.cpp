// Each activation's gradient is one pass, by a function `<name>_grad` of the incoming gradient g
// and of x or the result y, whichever is cheaper. Those functions are linear in g; their own
// derivatives by the other operand are composed.
#include <functional>
#include <numbers>

#include "ops/elementwise/elementwise_rules.h"
#include "tandem/ops.h"

namespace tandem {
namespace ops {
namespace {

using op::Attrs;
using op::Call;

/// An activation with a gradient of one pass, and the registration of both.
struct ActivationRow {
  const char* name;
  const char* grad_name;
  bool by_result;  ///< The gradient is a function of y, else of x.
  bool is_costly = false;
  /// The derivative by x (or y) of grad(1, x); none where that is 0 almost everywhere.
  std::function<Tensor(const Tensor&, const Attrs&)> curvature = nullptr;
};

/// Derivatives of `<name>_grad`, which is linear in its first operand.
op::GradientFn gradient_of_grad(const ActivationRow& activation) {
  return [activation](const Call& call, const Tensors& g) -> Tensors {
    const Tensor& at = call.inputs[1];
    const auto by_g = [&] {
      return op::apply_one(op::find_op(activation.grad_name), {g[0], at}, call.attrs);
    };
    const auto by_at = [&] { return g[0] * call.inputs[0] * activation.curvature(at, call.attrs); };
    return {side(call, 0, by_g), activation.curvature ? side(call, 1, by_at) : Tensor()};
  };
}

void add(op::Registry& registry, const ActivationRow& activation) {
  const auto priced = [&](const op::OpDef& op) { return activation.is_costly ? costly(op) : op; };
  registry.add(priced(binary_op(activation.grad_name, kFloating, gradient_of_grad(activation))));
  const auto gradient = [&grad = registry.op(activation.grad_name),
                         by_result = activation.by_result](const Call& call, const Tensors& g) {
    const Tensor& at = by_result ? call.outputs[0] : call.inputs[0];
    return Tensors{op::apply_one(grad, {g[0], at}, call.attrs)};
  };
  registry.add(priced(unary_op(activation.name, kFloating, gradient)));
}

/// The activation and its derivative by x in one pass: what graph/passes/share_slopes.cpp makes of
/// an activation and its gradient.
void add_with_slope(op::Registry& registry, const std::string& name) {
  op::OpDef both = costly(unary_op(name + "_with_slope", kFloating));
  both.pointwise = false;
  both.infer = [infer = std::move(both.infer)](const op::Signature& s) {
    return op::TensorTypes(2, infer(s)[0]);
  };
  registry.add(both);
}

/// grad(1, x) = alpha exp(x) where x is negative.
Tensor elu_curvature(const Tensor& x, const Attrs& attrs) {
  return where(x < 0, attrs.get<double>("alpha") * exp(minimum(x, 0)), 0);
}

/// With the normal density p: the derivative of P(x) + x p(x) is (2 - x^2) p(x).
Tensor gelu_curvature(const Tensor& x, const Attrs&) {
  const Tensor squares = square(x);
  const double scale = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  return (2 - squares) * (scale * exp(-0.5 * squares));
}

/// x s(2 u) with u = k (x + c x^3), s the sigmoid: with w = 2 u' and s' = s (1 - s),
/// the second derivative is s' (2 w + x w' + x w^2 (1 - 2 s)).
Tensor gelu_tanh_curvature(const Tensor& x, const Attrs&) {
  const double k = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const double c = 0.044715;
  const Tensor squares = square(x);
  const Tensor s = sigmoid(k * x * (1 + c * squares));
  const Tensor w = k * (1 + 3 * c * squares);
  const Tensor x_w_slope = 6 * k * c * squares;
  return s * (1 - s) * (2 * w + x_w_slope + x * square(w) * (1 - 2 * s));
}

/// s' (2 + x (1 - 2 s)) with s' = s (1 - s).
Tensor silu_curvature(const Tensor& x, const Attrs&) {
  const Tensor s = sigmoid(x);
  return s * (1 - s) * (2 + x * (1 - 2 * s));
}

/// grad(1, y) = y (1 - y)
Tensor sigmoid_curvature(const Tensor& y, const Attrs&) { return 1 - 2 * y; }

/// grad(1, x) = sigmoid(x)
Tensor softplus_curvature(const Tensor& x, const Attrs&) {
  const Tensor s = sigmoid(x);
  return s * (1 - s);
}

}  // namespace

void register_activation(op::Registry& registry) {
  constexpr bool kByResult = true;
  constexpr bool kCostly = true;
  add(registry, {"relu", "relu_grad", kByResult});
  add(registry, {"relu6", "relu6_grad", kByResult});
  add(registry, {"leaky_relu", "leaky_relu_grad", !kByResult});
  add(registry, {"elu", "elu_grad", !kByResult, kCostly, elu_curvature});
  add(registry, {"gelu", "gelu_grad", !kByResult, kCostly, gelu_curvature});
  add(registry, {"gelu_tanh", "gelu_tanh_grad", !kByResult, kCostly, gelu_tanh_curvature});
  add(registry, {"sigmoid", "sigmoid_grad", kByResult, kCostly, sigmoid_curvature});
  add(registry, {"silu", "silu_grad", !kByResult, kCostly, silu_curvature});
  for (const char* name : {"gelu", "gelu_tanh", "silu"}) add_with_slope(registry, name);
  add(registry, {"softplus", "softplus_grad", !kByResult, kCostly, softplus_curvature});
}

}  // namespace ops

using ops::call;
using ops::call_with;

Tensor relu(const Tensor& x) { return call<"relu">(x); }
Tensor relu6(const Tensor& x) { return call<"relu6">(x); }
Tensor leaky_relu(const Tensor& x, double alpha) {
  return call_with<"leaky_relu">({{"alpha", alpha}}, x);
}
Tensor elu(const Tensor& x, double alpha) { return call_with<"elu">({{"alpha", alpha}}, x); }
Tensor gelu(const Tensor& x, const GeluOptions& options) {
  return options.approximate ? call<"gelu_tanh">(x) : call<"gelu">(x);
}
Tensor sigmoid(const Tensor& x) { return call<"sigmoid">(x); }
Tensor silu(const Tensor& x) { return call<"silu">(x); }
Tensor softplus(const Tensor& x) { return call<"softplus">(x); }

}  // namespace tandem
