// Functions of single elements (roots, exponentials, trigonometry) with their gradients.
#include <numbers>

#include "ops/elementwise/elementwise_rules.h"
#include "tandem/ops.h"

namespace tandem {
namespace ops {
namespace {

using op::Call;

/// The gradient of a function of x whose derivative is written from x and its value y.
template <class Derivative>
op::GradientFn times(const Derivative& derivative) {
  return [derivative](const Call& call, const Tensors& g) -> Tensors {
    return {g[0] * derivative(call.inputs[0], call.outputs[0])};
  };
}

/// tanh_grad(g, y) = g (1 - y^2)
Tensors tanh_grad_gradient(const Call& call, const Tensors& g) {
  const Tensor& y = call.inputs[1];
  return {side(call, 0, [&] { return ops::call<"tanh_grad">(g[0], y); }),
          side(call, 1, [&] { return -2 * (g[0] * call.inputs[0] * y); })};
}

Tensors tanh_gradient(const Call& call, const Tensors& g) {
  return {ops::call<"tanh_grad">(g[0], call.outputs[0])};
}

/// Divided, not multiplied by a reciprocal: one pass.
Tensors log_gradient(const Call& call, const Tensors& g) { return {g[0] / call.inputs[0]}; }
Tensors log1p_gradient(const Call& call, const Tensors& g) { return {g[0] / (call.inputs[0] + 1)}; }
Tensors sqrt_gradient(const Call& call, const Tensors& g) { return {g[0] / (2 * call.outputs[0])}; }

}  // namespace

void register_math(op::Registry& registry) {
  const auto add_cheap = [&](const char* name, op::GradientFn gradient) {
    registry.add(unary_op(name, kFloating, std::move(gradient)));
  };
  const auto add = [&](const char* name, op::GradientFn gradient) {
    registry.add(costly(unary_op(name, kFloating, std::move(gradient))));
  };
  const double erf_slope = 2 * std::numbers::inv_sqrtpi;

  add_cheap("reciprocal", times([](auto&, auto& y) { return -square(y); }));
  add_cheap("sqrt", sqrt_gradient);
  add_cheap("rsqrt", times([](auto& x, auto& y) { return (-0.5 * y) / x; }));
  add_cheap("floor", nullptr);
  add_cheap("ceil", nullptr);
  add_cheap("round", nullptr);
  add("exp", times([](auto&, auto& y) { return y; }));
  add("expm1", times([](auto& x, auto&) { return exp(x); }));  // y + 1 has no digits near -1.
  add("log", log_gradient);
  add("log1p", log1p_gradient);
  add("sin", times([](auto& x, auto&) { return cos(x); }));
  add("cos", times([](auto& x, auto&) { return -sin(x); }));
  add("tan", times([](auto&, auto& y) { return square(y) + 1; }));
  // (1 - x) (1 + x), since 1 - x^2 loses digits near 1.
  add("asin", times([](auto& x, auto&) { return rsqrt((1 - x) * (1 + x)); }));
  add("acos", times([](auto& x, auto&) { return -rsqrt((1 - x) * (1 + x)); }));
  add("atan", times([](auto& x, auto&) { return reciprocal(square(x) + 1); }));
  add("sinh", times([](auto& x, auto&) { return cosh(x); }));
  add("cosh", times([](auto& x, auto&) { return sinh(x); }));
  add("tanh", tanh_gradient);
  add("erf", times([=](auto& x, auto&) { return erf_slope * exp(-square(x)); }));
  registry.add(binary_op("tanh_grad", kFloating, tanh_grad_gradient));
}

}  // namespace ops

using ops::call;

Tensor reciprocal(const Tensor& x) { return call<"reciprocal">(x); }
Tensor sqrt(const Tensor& x) { return call<"sqrt">(x); }
Tensor rsqrt(const Tensor& x) { return call<"rsqrt">(x); }
Tensor floor(const Tensor& x) { return call<"floor">(x); }
Tensor ceil(const Tensor& x) { return call<"ceil">(x); }
Tensor round(const Tensor& x) { return call<"round">(x); }
Tensor exp(const Tensor& x) { return call<"exp">(x); }
Tensor expm1(const Tensor& x) { return call<"expm1">(x); }
Tensor log(const Tensor& x) { return call<"log">(x); }
Tensor log1p(const Tensor& x) { return call<"log1p">(x); }
Tensor sin(const Tensor& x) { return call<"sin">(x); }
Tensor cos(const Tensor& x) { return call<"cos">(x); }
Tensor tan(const Tensor& x) { return call<"tan">(x); }
Tensor asin(const Tensor& x) { return call<"asin">(x); }
Tensor acos(const Tensor& x) { return call<"acos">(x); }
Tensor atan(const Tensor& x) { return call<"atan">(x); }
Tensor sinh(const Tensor& x) { return call<"sinh">(x); }
Tensor cosh(const Tensor& x) { return call<"cosh">(x); }
Tensor tanh(const Tensor& x) { return call<"tanh">(x); }
Tensor erf(const Tensor& x) { return call<"erf">(x); }

}  // namespace tandem
