// Roots, exponentials, trigonometry and the like, as functions of single elements (pointwise.h).
// The functions of vectors themselves are in vector_math.h.
//
// This file is compiled once per instruction set; the best one is chosen when a kernel is prepared.
#include <cstdint>

#include "kernels/cpu/elementwise/pointwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise/math.cpp"
#include <hwy/foreach_target.h>
// These come after foreach_target.h, which sets what they expand to.
#include <hwy/highway.h>

#include "kernels/cpu/elementwise/pointwise_simd.h"
#include "kernels/cpu/elementwise/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

struct Reciprocal : Unary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::Div(constant(d, 1), x);
  }
};

struct Sqrt : Unary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x) const {
    return hn::Sqrt(x);
  }
};

struct Rsqrt : Unary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::Div(constant(d, 1), hn::Sqrt(x));
  }
};

struct Floor : Unary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x) const {
    return hn::Floor(x);
  }
};

struct Ceil : Unary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x) const {
    return hn::Ceil(x);
  }
};

struct Round : Unary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x) const {
    return hn::Round(x);
  }
};

struct Exp : Unary {
  static constexpr bool kLong = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return exp_of(d, x);
  }
};

struct Expm1 : Unary {
  static constexpr bool kLong = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return expm1_of(d, x);
  }
};

struct Log : Unary {
  static constexpr bool kLong = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return log_of(d, x);
  }
};

struct Log1p : Unary {
  static constexpr bool kLong = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return log1p_of(d, x);
  }
};

struct Sin : Unary {
  static constexpr bool kLong = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return sin_of(d, x);
  }
};

struct Cos : Unary {
  static constexpr bool kLong = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return cos_of(d, x);
  }
};

struct Tan : Unary {
  static constexpr bool kLong = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return tan_of(d, x);
  }
};

struct Asin : Unary {
  static constexpr bool kLong = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::Asin(d, x);
  }
};

struct Acos : Unary {
  static constexpr bool kLong = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::Acos(d, x);
  }
};

struct Atan : Unary {
  static constexpr bool kLong = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::Atan(d, x);
  }
};

struct Sinh : Unary {
  static constexpr bool kLong = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return sinh_of(d, x);
  }
};

struct Cosh : Unary {
  static constexpr bool kLong = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return cosh_of(d, x);
  }
};

struct Tanh : Unary {
  static constexpr bool kLong = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::Tanh(d, x);
  }
};

struct Erf : Unary {
  static constexpr bool kLong = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return erf_of(d, x);
  }
};

struct TanhGrad : Binary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V g, V y) const {
    return hn::Mul(g, hn::NegMulAdd(y, y, constant(d, 1)));
  }
};

template <class T>
Functions<T> math() {
  static constexpr Pointwise<T> kFunctions[] = {
      pointwise<Reciprocal, T>("reciprocal"),
      pointwise<Sqrt, T>("sqrt"),
      pointwise<Rsqrt, T>("rsqrt"),
      pointwise<Floor, T>("floor"),
      pointwise<Ceil, T>("ceil"),
      pointwise<Round, T>("round"),
      pointwise<Exp, T>("exp"),
      pointwise<Expm1, T>("expm1"),
      pointwise<Log, T>("log"),
      pointwise<Log1p, T>("log1p"),
      pointwise<Sin, T>("sin"),
      pointwise<Cos, T>("cos"),
      pointwise<Tan, T>("tan"),
      pointwise<Asin, T>("asin"),
      pointwise<Acos, T>("acos"),
      pointwise<Atan, T>("atan"),
      pointwise<Sinh, T>("sinh"),
      pointwise<Cosh, T>("cosh"),
      pointwise<Tanh, T>("tanh"),
      pointwise<Erf, T>("erf"),
      pointwise<TanhGrad, T>("tanh_grad"),
  };
  return kFunctions;
}

Functions<float> math_float32() { return math<float>(); }
Functions<double> math_float64() { return math<double>(); }

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels::cpu {

HWY_EXPORT(math_float32);
HWY_EXPORT(math_float64);

template <>
Functions<float> math_functions(Table table) {
  return table == Table::fastest ? HWY_DYNAMIC_DISPATCH(math_float32)()
                                 : HWY_STATIC_DISPATCH(math_float32)();
}
template <>
Functions<double> math_functions(Table table) {
  return table == Table::fastest ? HWY_DYNAMIC_DISPATCH(math_float64)()
                                 : HWY_STATIC_DISPATCH(math_float64)();
}

}  // namespace tandem::kernels::cpu
#endif
