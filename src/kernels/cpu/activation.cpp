// This file is compiled once per instruction set; the best one is chosen when a kernel is prepared.
#include <cstdint>

#include "kernels/cpu/pointwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/activation.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which sets what they expand to.
#include <hwy/highway.h>

#include "kernels/cpu/pointwise_simd.h"
#include "kernels/cpu/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

/// x limited to [-limit, limit]; NaN stays NaN.
template <class D, class V>
HWY_INLINE V within(D d, V x, double limit) {
  return at_least(at_most(x, constant(d, limit)), constant(d, -limit));
}

/// Not by a maximum, which would turn NaN into 0 on some instruction sets.
struct Relu : Unary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
  }
};

struct ReluGrad : Binary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V g, V y) const {
    return hn::IfThenElseZero(hn::Gt(y, hn::Zero(d)), g);
  }
};

struct Relu6 : Unary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return at_most(hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x), constant(d, 6));
  }
};

struct Relu6Grad : Binary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V g, V y) const {
    const auto inside = hn::And(hn::Gt(y, hn::Zero(d)), hn::Lt(y, constant(d, 6)));
    return hn::IfThenElseZero(inside, g);
  }
};

struct LeakyRelu : Unary {
  explicit LeakyRelu(const double* parameters) : alpha(parameters[0]) {}
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), x, hn::Mul(x, constant(d, alpha)));
  }
  double alpha;
};

struct LeakyReluGrad : Binary {
  explicit LeakyReluGrad(const double* parameters) : alpha(parameters[0]) {}
  template <class D, class V>
  HWY_INLINE V operator()(D d, V g, V x) const {
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), g, hn::Mul(g, constant(d, alpha)));
  }
  double alpha;
};

struct Elu : Unary {
  static constexpr bool kLong = true;
  explicit Elu(const double* parameters) : alpha(parameters[0]) {}
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V below = hn::Mul(constant(d, alpha), expm1_of(d, x));
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), x, below);
  }
  double alpha;
};

struct EluGrad : Binary {
  static constexpr bool kLong = true;
  explicit EluGrad(const double* parameters) : alpha(parameters[0]) {}
  template <class D, class V>
  HWY_INLINE V operator()(D d, V g, V x) const {
    const V below = hn::Mul(constant(d, alpha), exp_of(d, x));
    return hn::Mul(g, hn::IfThenElse(hn::Gt(x, hn::Zero(d)), constant(d, 1), below));
  }
  double alpha;
};

/// x times the part of the normal distribution below x: relu less what is lost on either side.
struct Gelu : Unary {
  static constexpr bool kLong = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    V size, density;
    normal_density(d, x, &size, &density);
    const V tail = hn::Mul(density, scaled_tail(d, size));
    return hn::NegMulAdd(size, tail, hn::Max(x, hn::Zero(d)));
  }
};

struct GeluGrad : Binary {
  static constexpr bool kLong = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V g, V x) const {
    V size, density;
    normal_density(d, x, &size, &density);
    // The derivative at -|x|; that at |x| is 1 less it.
    const V below = hn::Mul(
        density, hn::NegMulAdd(size, constant(d, 0.39894228040143267794), scaled_tail(d, size)));
    const V above = hn::Sub(constant(d, 1), below);
    return hn::Mul(g, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), below, above));
  }
};

/// gelu by tanh is x s with s = sigmoid(k (x + c x^3)): 1 + tanh(u) = 2 sigmoid(2 u).
constexpr double kGeluScale = 1.5957691216057307118;
constexpr double kGeluCube = 0.044715;

struct GeluTanh : Unary {
  static constexpr bool kLong = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V one = constant(d, 1);
    const V cubic = hn::MulAdd(constant(d, kGeluCube), hn::Mul(x, x), one);
    const V at = hn::Mul(hn::Mul(constant(d, -kGeluScale), x), cubic);
    const V value = hn::Div(x, hn::Add(one, exp_of(d, at)));
    return hn::IfThenZeroElse(hn::Lt(x, constant(d, -40)), value);
  }
};

struct GeluTanhGrad : Binary {
  static constexpr bool kLong = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V g, V x) const {
    const V one = constant(d, 1);
    const V v = within(d, x, 40);
    const V squares = hn::Mul(v, v);
    const V scaled = hn::Mul(constant(d, kGeluScale), v);
    const V s = sigmoid_of(d, hn::Mul(scaled, hn::MulAdd(constant(d, kGeluCube), squares, one)));
    const V slope = hn::Mul(scaled, hn::MulAdd(constant(d, 3 * kGeluCube), squares, one));
    return hn::Mul(g, hn::MulAdd(hn::Mul(s, hn::Sub(one, s)), slope, s));
  }
};

struct Sigmoid : Unary {
  static constexpr bool kLong = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return sigmoid_of(d, x);
  }
};

struct SigmoidGrad : Binary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V g, V y) const {
    return hn::Mul(g, hn::Mul(y, hn::Sub(constant(d, 1), y)));
  }
};

struct Silu : Unary {
  static constexpr bool kLong = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V value = hn::Div(x, hn::Add(constant(d, 1), exp_of(d, hn::Neg(x))));
    return hn::IfThenZeroElse(hn::Lt(x, constant(d, -800)), value);
  }
};

struct SiluGrad : Binary {
  static constexpr bool kLong = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V g, V x) const {
    const V one = constant(d, 1);
    const V s = sigmoid_of(d, x);
    const V slope = hn::MulAdd(within(d, x, 800), hn::Sub(one, s), one);
    return hn::Mul(g, hn::Mul(s, slope));
  }
};

struct Softplus : Unary {
  static constexpr bool kLong = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V above = hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
    return hn::Add(above, hn::Log1p(d, exp_of(d, hn::Neg(hn::Abs(x)))));
  }
};

struct SoftplusGrad : Binary {
  static constexpr bool kLong = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V g, V x) const {
    return hn::Mul(g, sigmoid_of(d, x));
  }
};

template <class T>
Functions<T> activation() {
  static constexpr Pointwise<T> kFunctions[] = {
      pointwise<Relu, T>("relu"),
      pointwise<ReluGrad, T>("relu_grad"),
      pointwise<Relu6, T>("relu6"),
      pointwise<Relu6Grad, T>("relu6_grad"),
      pointwise<LeakyRelu, T>("leaky_relu", {"alpha"}),
      pointwise<LeakyReluGrad, T>("leaky_relu_grad", {"alpha"}),
      pointwise<Elu, T>("elu", {"alpha"}),
      pointwise<EluGrad, T>("elu_grad", {"alpha"}),
      pointwise<Gelu, T>("gelu"),
      pointwise<GeluGrad, T>("gelu_grad"),
      pointwise<GeluTanh, T>("gelu_tanh"),
      pointwise<GeluTanhGrad, T>("gelu_tanh_grad"),
      pointwise<Sigmoid, T>("sigmoid"),
      pointwise<SigmoidGrad, T>("sigmoid_grad"),
      pointwise<Silu, T>("silu"),
      pointwise<SiluGrad, T>("silu_grad"),
      pointwise<Softplus, T>("softplus"),
      pointwise<SoftplusGrad, T>("softplus_grad"),
  };
  return kFunctions;
}

Functions<float> activation_float32() { return activation<float>(); }
Functions<double> activation_float64() { return activation<double>(); }

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels::cpu {

HWY_EXPORT(activation_float32);
HWY_EXPORT(activation_float64);

template <>
Functions<float> activation_functions() {
  return HWY_DYNAMIC_DISPATCH(activation_float32)();
}
template <>
Functions<double> activation_functions() {
  return HWY_DYNAMIC_DISPATCH(activation_float64)();
}

}  // namespace tandem::kernels::cpu
#endif
