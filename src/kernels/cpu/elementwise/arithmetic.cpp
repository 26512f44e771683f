// Arithmetic on floating numbers, as functions of single elements (pointwise.h).
//
// This file is compiled once per instruction set; the best one is chosen when a kernel is prepared.
#include <cstdint>

#include "kernels/cpu/elementwise/pointwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise/arithmetic.cpp"
#include <hwy/foreach_target.h>
// These come after foreach_target.h, which sets what they expand to.
#include <hwy/highway.h>

#include "kernels/cpu/elementwise/pointwise_simd.h"
#include "kernels/cpu/elementwise/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

struct Add : Binary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Add(a, b);
  }
};

struct Sub : Binary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Sub(a, b);
  }
};

struct Mul : Binary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Mul(a, b);
  }
};

struct Div : Binary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Div(a, b);
  }
};

struct FloorDiv : Binary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Floor(hn::Div(a, b));
  }
};

struct Mod : Binary {
  static constexpr bool kLong = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    return mod_of(d, a, b);
  }
};

struct Pow : Binary {
  static constexpr bool kLong = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    return pow_of(d, a, b);
  }
};

/// The vectors' own maximum and minimum take NaN differently on each instruction set.
struct Maximum : Binary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
  }
};

struct Minimum : Binary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b);
  }
};

struct SquaredDifference : Binary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    const V difference = hn::Sub(a, b);
    return hn::Mul(difference, difference);
  }
};

struct Neg : Unary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x) const {
    return hn::Neg(x);
  }
};

struct Abs : Unary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x) const {
    return hn::Abs(x);
  }
};

struct Sign : Unary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V one = hn::Set(d, 1);
    const V up = hn::IfThenElse(hn::Gt(x, hn::Zero(d)), one, x);
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Neg(one), up);
  }
};

struct Square : Unary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x) const {
    return hn::Mul(x, x);
  }
};

template <class T>
Functions<T> arithmetic() {
  static constexpr Pointwise<T> kFunctions[] = {
      pointwise<Add, T>("add"),
      pointwise<Sub, T>("sub"),
      pointwise<Mul, T>("mul"),
      pointwise<Div, T>("div"),
      pointwise<FloorDiv, T>("floor_div"),
      pointwise<Mod, T>("mod"),
      pointwise<Pow, T>("pow"),
      pointwise<Maximum, T>("maximum"),
      pointwise<Minimum, T>("minimum"),
      pointwise<SquaredDifference, T>("squared_difference"),
      pointwise<Neg, T>("neg"),
      pointwise<Abs, T>("abs"),
      pointwise<Sign, T>("sign"),
      pointwise<Square, T>("square"),
  };
  return kFunctions;
}

Functions<float> arithmetic_float32() { return arithmetic<float>(); }
Functions<double> arithmetic_float64() { return arithmetic<double>(); }

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels::cpu {

HWY_EXPORT(arithmetic_float32);
HWY_EXPORT(arithmetic_float64);

template <>
Functions<float> arithmetic_functions(Table table) {
  return table == Table::fastest ? HWY_DYNAMIC_DISPATCH(arithmetic_float32)()
                                 : HWY_STATIC_DISPATCH(arithmetic_float32)();
}
template <>
Functions<double> arithmetic_functions(Table table) {
  return table == Table::fastest ? HWY_DYNAMIC_DISPATCH(arithmetic_float64)()
                                 : HWY_STATIC_DISPATCH(arithmetic_float64)();
}

}  // namespace tandem::kernels::cpu
#endif
