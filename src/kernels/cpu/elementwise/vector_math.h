// Functions of vectors, accurate to a few units in the last place, with NaN, infinities and limits
// as in <cmath>, for the instruction set that is being compiled. Included anew for each of them,
// after hwy/highway.h; therefore the guard that toggles.
#if defined(TANDEM_KERNELS_CPU_VECTOR_MATH_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_CPU_VECTOR_MATH_H
#undef TANDEM_KERNELS_CPU_VECTOR_MATH_H
#else
#define TANDEM_KERNELS_CPU_VECTOR_MATH_H
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/cpu/simd.h"
#include "kernels/text.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

/// A constant of the vector's type, chosen by the type.
template <class D>
HWY_INLINE hn::Vec<D> constant(D d, double of_float32, double of_float64) {
  using T = hn::TFromD<D>;
  return hn::Set(d, static_cast<T>(sizeof(T) == 4 ? of_float32 : of_float64));
}

template <class D>
HWY_INLINE hn::Vec<D> constant(D d, double value) {
  return constant(d, value, value);
}

template <class D>
HWY_INLINE hn::Vec<D> infinity(D d) {
  return hn::Set(d, std::numeric_limits<hn::TFromD<D>>::infinity());
}

/// x, or `limit` if it is larger; NaN stays NaN.
template <class V>
HWY_INLINE V at_most(V x, V limit) {
  return hn::IfThenElse(hn::Gt(x, limit), limit, x);
}
template <class V>
HWY_INLINE V at_least(V x, V limit) {
  return hn::IfThenElse(hn::Lt(x, limit), limit, x);
}

/// x, or zero in place of a number that is subnormal.
template <class D, class V>
HWY_INLINE V without_subnormal(D d, V x) {
  const V least = hn::Set(d, std::numeric_limits<hn::TFromD<D>>::min());
  return hn::IfThenElse(hn::Lt(hn::Abs(x), least), hn::CopySign(hn::Zero(d), x), x);
}

/// f of each lane alone. The functions of <cmath> do not take subnormal numbers for zero, nor are
/// their results right where the processor does.
template <class D, class V, class F>
HWY_INLINE V by_lane(D d, V x, const F& f) {
  HWY_ALIGN hn::TFromD<D> values[HWY_MAX_BYTES / sizeof(hn::TFromD<D>)];
  hn::Store(without_subnormal(d, x), d, values);
  for (int64_t i = 0; i < lanes(d); ++i) values[i] = f(values[i]);
  return hn::Load(d, values);
}
template <class D, class V, class F>
HWY_INLINE V by_lane(D d, V a, V b, const F& f) {
  HWY_ALIGN hn::TFromD<D> values[HWY_MAX_BYTES / sizeof(hn::TFromD<D>)];
  HWY_ALIGN hn::TFromD<D> others[HWY_MAX_BYTES / sizeof(hn::TFromD<D>)];
  hn::Store(without_subnormal(d, a), d, values);
  hn::Store(without_subnormal(d, b), d, others);
  for (int64_t i = 0; i < lanes(d); ++i) values[i] = f(values[i], others[i]);
  return hn::Load(d, values);
}

template <class D, class V>
HWY_INLINE V mod_of(D d, V a, V b) {
  return by_lane(d, a, b, [](auto x, auto y) {
    const auto rest = std::fmod(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
  });
}

template <class D, class V>
HWY_INLINE V pow_of(D d, V a, V b) {
  if (hn::AllTrue(d, hn::Eq(b, hn::Set(d, 2)))) return hn::Mul(a, a);
  return by_lane(d, a, b, [](auto x, auto y) { return std::pow(x, y); });
}

/// The sum of c[i] x^i, even and odd powers apart so that they need not wait for each other.
template <class D, class V, class T, size_t kCount>
HWY_INLINE V polynomial(D d, V x, const T (&c)[kCount]) {
  const V squares = hn::Mul(x, x);
  V high = hn::Set(d, c[kCount - 1]);
  V low = hn::Set(d, c[kCount - 2]);
  for (size_t i = kCount - 2; i >= 2; i -= 2) {
    high = hn::MulAdd(high, squares, hn::Set(d, c[i - 1]));
    low = hn::MulAdd(low, squares, hn::Set(d, c[i - 2]));
  }
  static_assert(kCount % 2 == 0);
  return hn::MulAdd(high, x, low);
}

/// exp(x) = 2^n exp(r) where n is x / ln 2 rounded. Adding a large number to x / ln 2 rounds it and
/// leaves n in the lowest bits, from where it is added to the exponent. For x in between the
/// logarithms of the smallest and largest normal numbers; else anything.
template <class D>
struct ExpReduction {
  using T = hn::TFromD<D>;
  using V = hn::Vec<D>;

  HWY_INLINE ExpReduction(D d, V x) {
    const V rounding = constant(d, 0x1.8p23, 0x1.8p52);
    shifted = hn::MulAdd(x, constant(d, 1.44269504088896340736), rounding);
    n = hn::Sub(shifted, rounding);
  }

  // ln 2 in two parts, so that n times the first is exact.
  static HWY_INLINE V ln2_high(D d) {
    return constant(d, 0.693145751953125, 0.6931471805596629565116018);
  }
  static HWY_INLINE V ln2_low(D d) {
    return constant(d, 1.428606765330187045e-6, 0.28235290563031577122588448175e-12);
  }

  HWY_INLINE V exp_of(D d, V r) const {
    constexpr int kMantissaBits = sizeof(T) == 4 ? 23 : 52;
    const hn::RebindToSigned<D> di;
    hwy::HWY_NAMESPACE::impl::ExpImpl<T> parts;
    const V mantissa = hn::Add(parts.ExpPoly(d, r), constant(d, 1));
    const auto exponent = hn::ShiftLeft<kMantissaBits>(hn::BitCast(di, shifted));
    return hn::BitCast(d, hn::Add(hn::BitCast(di, mantissa), exponent));
  }

  V shifted, n;
};

template <class D, class V>
HWY_INLINE V exp_within_range(D d, V x) {
  const ExpReduction<D> e(d, x);
  const V near = hn::NegMulAdd(e.n, e.ln2_high(d), x);
  return e.exp_of(d, hn::NegMulAdd(e.n, e.ln2_low(d), near));
}

/// The logarithms of the smallest normal number and of the largest.
template <class D>
HWY_INLINE hn::Vec<D> log_of_smallest(D d) {
  return constant(d, -87.3365447505531, -708.396418532264);
}
template <class D>
HWY_INLINE hn::Vec<D> log_of_largest(D d) {
  return constant(d, 88.7228317, 709.782712893384);
}

template <class D, class V>
HWY_INLINE V exp_of(D d, V x) {
  const V value = exp_within_range(d, x);
  const V large = hn::IfThenElse(hn::Gt(x, log_of_largest(d)), infinity(d), value);
  const V small = hn::IfThenZeroElse(hn::Lt(x, log_of_smallest(d)), large);
  return hn::IfThenElse(hn::IsNaN(x), x, small);
}

template <class D, class V>
HWY_INLINE V expm1_of(D d, V x) {
  const V within = hn::IfThenElse(hn::Gt(x, constant(d, 89, 710)), infinity(d), hn::Expm1(d, x));
  return hn::IfThenElse(hn::IsNaN(x), x, within);
}

/// `value` where `x` lies between `pole` and infinity; what a logarithm is elsewhere.
template <class D, class V>
HWY_INLINE V with_pole(D d, V x, V pole, V value) {
  const V beyond = hn::IfThenElse(hn::Lt(x, pole), hn::NaN(d), x);
  const V special = hn::IfThenElse(hn::Eq(x, pole), hn::Neg(infinity(d)), beyond);
  return hn::IfThenElse(hn::And(hn::Gt(x, pole), hn::Lt(x, infinity(d))), value, special);
}

template <class D, class V>
HWY_INLINE V log_of(D d, V x) {
  return with_pole(d, x, hn::Zero(d), hn::Log(d, x));
}

template <class D, class V>
HWY_INLINE V log1p_of(D d, V x) {
  return with_pole(d, x, constant(d, -1), hn::Log1p(d, x));
}

/// Highway's sine and cosine lose digits from here on.
template <class D, class V>
HWY_INLINE bool is_near_zero(D d, V x) {
  return hn::AllTrue(d, hn::Le(hn::Abs(x), constant(d, 30000)));
}

template <class D, class V>
HWY_INLINE V sin_of(D d, V x) {
  if (is_near_zero(d, x)) return hn::Sin(d, x);
  return by_lane(d, x, [](auto v) { return std::sin(v); });
}

template <class D, class V>
HWY_INLINE V cos_of(D d, V x) {
  if (is_near_zero(d, x)) return hn::Cos(d, x);
  return by_lane(d, x, [](auto v) { return std::cos(v); });
}

template <class D, class V>
HWY_INLINE V tan_of(D d, V x) {
  if (is_near_zero(d, x)) return hn::Div(hn::Sin(d, x), hn::Cos(d, x));
  return by_lane(d, x, [](auto v) { return std::tan(v); });
}

/// It is computed from exp(|x| / 2), which overflows only where the result does.
template <class D, class V>
HWY_INLINE V cosh_of(D d, V x) {
  const V root = exp_of(d, hn::Mul(hn::Abs(x), constant(d, 0.5)));
  const V half = hn::Mul(root, constant(d, 0.5));
  return hn::MulAdd(half, root, hn::Div(hn::Div(constant(d, 0.5), root), root));
}

template <class D, class V>
HWY_INLINE V sinh_of(D d, V x) {
  const V size = hn::Abs(x);
  const V root = exp_of(d, hn::Mul(size, constant(d, 0.5)));
  const V far = hn::Mul(hn::Mul(root, constant(d, 0.5)), root);
  const V grown = hn::Expm1(d, size);
  const V near =
      hn::Mul(constant(d, 0.5), hn::Add(grown, hn::Div(grown, hn::Add(grown, constant(d, 1)))));
  return hn::CopySignToAbs(hn::IfThenElse(hn::Lt(size, constant(d, 20)), near, far), x);
}

/// 1 / (1 + exp(-x))
template <class D, class V>
HWY_INLINE V sigmoid_of(D d, V x) {
  const V one = constant(d, 1);
  return hn::Div(one, hn::Add(one, exp_of(d, hn::Neg(x))));
}

/// a b - product, where `product` is a b rounded. Without a fused instruction, from the products of
/// halves of the mantissas, which are exact (Dekker, Numerische Mathematik 18, 1971).
template <class D, class V>
HWY_INLINE V rounding_of_product([[maybe_unused]] D d, V a, V b, V product) {
#if HWY_NATIVE_FMA
  return hn::MulSub(a, b, product);
#else
  using Bits = hn::RebindToUnsigned<D>;
  constexpr int kLowBits = sizeof(hn::TFromD<D>) == 4 ? 12 : 27;
  const auto kept = hn::ShiftLeft<kLowBits>(hn::Set(Bits(), hn::TFromD<Bits>(~0ull)));
  const auto high_half = [&](V v) HWY_ATTR { return hn::And(v, hn::BitCast(d, kept)); };
  const V a_high = high_half(a), b_high = high_half(b);
  const V a_low = hn::Sub(a, a_high), b_low = hn::Sub(b, b_high);
  const V high = hn::Sub(hn::Mul(a_high, b_high), product);
  const V crossed = hn::Add(hn::Mul(a_high, b_low), hn::Mul(a_low, b_high));
  return hn::Add(hn::Add(high, crossed), hn::Mul(a_low, b_low));
#endif
}

/// exp(-a b) for a, b >= 0, without an error from rounding their product; NaN if one is.
template <class D, class V>
HWY_INLINE V exp_minus_product(D d, V a, V b) {
  const V product = hn::Mul(a, b);
  const V x = hn::Neg(product);
#if HWY_NATIVE_FMA
  const ExpReduction<D> e(d, x);
  // This comes from the product before it is rounded; n times the high part is exact.
  const V near = hn::NegMulSub(a, b, hn::Mul(e.n, e.ln2_high(d)));
  const V value = e.exp_of(d, hn::NegMulAdd(e.n, e.ln2_low(d), near));
#else
  const V rounded = rounding_of_product(d, a, b, product);
  const V value = hn::Mul(exp_within_range(d, x), hn::Sub(constant(d, 1), rounded));
#endif
  return hn::IfThenZeroElse(hn::Lt(x, log_of_smallest(d)), value);
}

/// exp(x^2 / 2) times the part of the normal distribution beyond x, for x from 0 to where
/// exp(-x^2 / 2) is 0: a polynomial of (x - k) / (x + k), divided by x + k.
template <class D, class V>
HWY_INLINE V scaled_tail(D d, V x) {
  static constexpr float kFloat32[] = {
      0.706656635f,  -0.433691978f,  0.131987005f,    0.00923556462f,   -0.0163863916f,
      -0.001599718f, 0.00252464181f, 0.000683199149f, -0.000312365097f, -0.000157528717f};
  static constexpr double kFloat64[] = {
      0.7773517718933621,      -0.7010090295908655,     0.5689688918147888,
      -0.413903585775597,      0.26797424584137214,     -0.15268023206433365,
      0.07517191567504004,     -0.030985315508534682,   0.010029820573166518,
      -0.0021316052197402533,  3.28704517948166e-05,    0.0001813605798543579,
      -6.475370658533126e-05,  1.0746304118549444e-06,  6.80056015347522e-06,
      -1.7966449143338006e-06, -4.358248073246926e-07,  3.0487402370696243e-07,
      1.2816516407892689e-08,  -3.7818475918849024e-08, 6.320911822311578e-11,
      2.696182327528536e-09};
  const V k = constant(d, 2.5, 6);
  const V part = hn::Div(constant(d, 1), hn::Add(x, k));
  const V at = hn::Mul(hn::Sub(x, k), part);
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    return hn::Mul(polynomial(d, at, kFloat32), part);
  } else {
    return hn::Mul(polynomial(d, at, kFloat64), part);
  }
}

template <class D, class V>
HWY_INLINE V erf_of(D d, V x) {
  // erf(x) / x as a function of x^2 in [0, 1].
  static constexpr float kFloat32[] = {
      1.12837911f,    -0.37612626f,    0.112835944f,    -0.0268542115f,
      0.00518908724f, -0.00080168643f, 7.87587487e-05f, 0};
  static constexpr double kFloat64[] = {1.1283791670955126,     -0.37612638903183748,
                                        0.11283791670954879,    -0.026866170645076792,
                                        0.0052239776248180145,  -0.000854832698083379,
                                        0.0001205533111164271,  -1.4925595266831182e-05,
                                        1.6461000484121368e-06, -1.6350312701054695e-07,
                                        1.4659775274047436e-08, -1.1372848856791674e-09,
                                        5.9571761477489113e-11, 0};
  const V z = at_most(hn::Abs(x), constant(d, 10, 27.4));
  const V tail = scaled_tail(d, hn::Mul(z, constant(d, 1.41421356237309504880)));
  const V far =
      hn::NegMulAdd(hn::Mul(exp_minus_product(d, z, z), tail), constant(d, 2), constant(d, 1));
  V near;
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    near = hn::Mul(z, polynomial(d, hn::Mul(z, z), kFloat32));
  } else {
    near = hn::Mul(z, polynomial(d, hn::Mul(z, z), kFloat64));
  }
  return hn::CopySignToAbs(hn::IfThenElse(hn::Lt(z, constant(d, 1)), near, far), x);
}

/// The size of x, no larger than where the density of the normal distribution is 0, and sqrt(2 pi)
/// times that density.
template <class D, class V>
HWY_INLINE void normal_density(D d, V x, V* size, V* density) {
  *size = at_most(hn::Abs(x), constant(d, 14.1, 38.7));
  *density = exp_minus_product(d, hn::Mul(*size, constant(d, 0.5)), *size);
}

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
