// The activations and their gradients, as functions of single elements (pointwise.h).
//
// This file is compiled once per instruction set; the best one is chosen when a kernel is prepared.
#include <cstdint>
#include <span>

#include "kernels/cpu/elementwise/pointwise.h"
#include "kernels/part.h"
#include "op/registry.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise/activation.cpp"
#include <hwy/foreach_target.h>
// These come after foreach_target.h, which sets what they expand to.
#include <hwy/highway.h>

#include "kernels/cpu/elementwise/pointwise_simd.h"
#include "kernels/cpu/elementwise/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

/// x limited to [-limit, limit]; NaN stays NaN.
template <class D, class V>
HWY_INLINE V within(D d, V x, double limit) {
  return at_least(at_most(x, constant(d, limit)), constant(d, -limit));
}

/// It is not computed by a maximum, which would turn NaN into 0 on some instruction sets.
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

/// A function and its derivative, which cost little more than either. Functions of this kind,
/// f(tag, x, &value, &slope), are made into a function, a gradient and both at once.
template <class F>
struct ValueOf : Unary {
  static constexpr bool kLong = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    V value, slope;
    F()(d, x, &value, &slope);
    return value;
  }
};

template <class F>
struct GradOf : Binary {
  static constexpr bool kLong = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V g, V x) const {
    V value, slope;
    F()(d, x, &value, &slope);
    return hn::Mul(g, slope);
  }
};

template <class F, class T>
void run_with_slope(const T* x, T* value, T* slope, int64_t count) {
  const hn::ScalableTag<T> d;
  for (int64_t i = 0; i < count; i += lanes(d)) {
    const int64_t left = count - i;
    hn::Vec<decltype(d)> v, s;
    F()(d, loaded(d, x, true, i, left), &v, &s);
    if (left >= lanes(d)) {
      hn::StoreU(v, d, value + i);
      hn::StoreU(s, d, slope + i);
    } else {
      store_first(d, v, value + i, left);
      store_first(d, s, slope + i, left);
    }
  }
}

#if HWY_ONCE
template <class F, class T>
void print_with_slope(text::Listing& listing, const text::Text& x, text::Text* value,
                      text::Text* slope) {
  F()(text::TextTag<T>{&listing}, x, value, slope);
}
#endif

template <class F, class T>
constexpr SlopeFunction<T> with_slope(std::string_view name) {
  SlopeFunction<T> function{name, run_with_slope<F, T>};
#if HWY_ONCE
  function.print = print_with_slope<F, T>;
#endif
  return function;
}

/// x times the part of the normal distribution below x: relu less what is lost on either side. The
/// slopes at x and -x add up to 1.
struct Gelu {
  template <class D, class V>
  HWY_INLINE void operator()(D d, V x, V* value, V* slope) const {
    V size, density;
    normal_density(d, x, &size, &density);
    const V tail = scaled_tail(d, size);
    *value = hn::NegMulAdd(size, hn::Mul(density, tail), hn::Max(x, hn::Zero(d)));
    const V below =
        hn::Mul(density, hn::NegMulAdd(size, constant(d, 0.39894228040143267794), tail));
    const V above = hn::Sub(constant(d, 1), below);
    *slope = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), below, above);
  }
};

/// gelu by tanh is x s with s = sigmoid(k (x + c x^3)): 1 + tanh(u) = 2 sigmoid(2 u).
struct GeluTanh {
  template <class D, class V>
  HWY_INLINE void operator()(D d, V x, V* value, V* slope) const {
    constexpr double kScale = 1.5957691216057307118;
    constexpr double kCube = 0.044715;
    const V one = constant(d, 1);
    const V v = within(d, x, 40);
    const V squares = hn::Mul(v, v);
    const V scaled = hn::Mul(constant(d, kScale), v);
    const V at = hn::Mul(scaled, hn::MulAdd(constant(d, kCube), squares, one));
    const V divisor = hn::Add(one, exp_of(d, hn::Neg(at)));
    *value = hn::IfThenZeroElse(hn::Lt(x, constant(d, -40)), hn::Div(x, divisor));
    const V s = hn::Div(one, divisor);
    const V slope_of_at = hn::MulAdd(constant(d, 3 * kCube), squares, one);
    *slope = hn::MulAdd(hn::Mul(s, hn::Sub(one, s)), hn::Mul(scaled, slope_of_at), s);
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

struct Silu {
  template <class D, class V>
  HWY_INLINE void operator()(D d, V x, V* value, V* slope) const {
    const V one = constant(d, 1);
    const V divisor = hn::Add(one, exp_of(d, hn::Neg(x)));
    *value = hn::IfThenZeroElse(hn::Lt(x, constant(d, -800)), hn::Div(x, divisor));
    const V s = hn::Div(one, divisor);
    *slope = hn::Mul(s, hn::MulAdd(within(d, x, 800), hn::Sub(one, s), one));
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
      pointwise<ValueOf<Gelu>, T>("gelu"),
      pointwise<GradOf<Gelu>, T>("gelu_grad"),
      pointwise<ValueOf<GeluTanh>, T>("gelu_tanh"),
      pointwise<GradOf<GeluTanh>, T>("gelu_tanh_grad"),
      pointwise<Sigmoid, T>("sigmoid"),
      pointwise<SigmoidGrad, T>("sigmoid_grad"),
      pointwise<ValueOf<Silu>, T>("silu"),
      pointwise<GradOf<Silu>, T>("silu_grad"),
      pointwise<Softplus, T>("softplus"),
      pointwise<SoftplusGrad, T>("softplus_grad"),
  };
  return kFunctions;
}

template <class T>
std::span<const SlopeFunction<T>> with_slopes() {
  static constexpr SlopeFunction<T> kFunctions[] = {
      with_slope<Gelu, T>("gelu_with_slope"),
      with_slope<GeluTanh, T>("gelu_tanh_with_slope"),
      with_slope<Silu, T>("silu_with_slope"),
  };
  return kFunctions;
}

std::span<const SlopeFunction<float>> with_slopes_float32() { return with_slopes<float>(); }
std::span<const SlopeFunction<double>> with_slopes_float64() { return with_slopes<double>(); }

Functions<float> activation_float32() { return activation<float>(); }
Functions<double> activation_float64() { return activation<double>(); }

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels::cpu {

HWY_EXPORT(activation_float32);
HWY_EXPORT(activation_float64);
HWY_EXPORT(with_slopes_float32);
HWY_EXPORT(with_slopes_float64);

namespace {

template <class T>
void add_kernels(op::BackendKernels& kernels, std::span<const SlopeFunction<T>> functions) {
  for (const SlopeFunction<T>& function : functions) {
    kernels.add(function.name, {dtype_of<T>}, [run = function.run](const op::Signature& s, int) {
      return op::executable([run, split = RowSplit(s.outputs[0].shape)](const op::Launch& l) {
        const auto [begin, end] = split.part(l);
        run(l.in<T>(0) + begin, l.out<T>(0) + begin, l.out<T>(1) + begin, end - begin);
      });
    });
  }
}

}  // namespace

template <>
std::span<const SlopeFunction<float>> slope_functions(Table table) {
  return table == Table::fastest ? HWY_DYNAMIC_DISPATCH(with_slopes_float32)()
                                 : HWY_STATIC_DISPATCH(with_slopes_float32)();
}
template <>
std::span<const SlopeFunction<double>> slope_functions(Table table) {
  return table == Table::fastest ? HWY_DYNAMIC_DISPATCH(with_slopes_float64)()
                                 : HWY_STATIC_DISPATCH(with_slopes_float64)();
}

void register_activation_slopes(op::BackendKernels& kernels) {
  add_kernels(kernels, slope_functions<float>(Table::fastest));
  add_kernels(kernels, slope_functions<double>(Table::fastest));
}

template <>
Functions<float> activation_functions(Table table) {
  return table == Table::fastest ? HWY_DYNAMIC_DISPATCH(activation_float32)()
                                 : HWY_STATIC_DISPATCH(activation_float32)();
}
template <>
Functions<double> activation_functions(Table table) {
  return table == Table::fastest ? HWY_DYNAMIC_DISPATCH(activation_float64)()
                                 : HWY_STATIC_DISPATCH(activation_float64)();
}

}  // namespace tandem::kernels::cpu
#endif
