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

/// At most `limit`; NaN stays NaN.
template <class V>
HWY_INLINE V at_most(V x, V limit) {
  return hn::IfThenElse(hn::Gt(x, limit), limit, x);
}
template <class V>
HWY_INLINE V at_least(V x, V limit) {
  return hn::IfThenElse(hn::Lt(x, limit), limit, x);
}

/// f of each lane alone.
template <class D, class V, class F>
HWY_INLINE V by_lane(D d, V x, const F& f) {
  HWY_ALIGN hn::TFromD<D> values[HWY_MAX_BYTES / sizeof(hn::TFromD<D>)];
  hn::Store(x, d, values);
  for (int64_t i = 0; i < lanes(d); ++i) values[i] = f(values[i]);
  return hn::Load(d, values);
}
template <class D, class V, class F>
HWY_INLINE V by_lane(D d, V a, V b, const F& f) {
  HWY_ALIGN hn::TFromD<D> values[HWY_MAX_BYTES / sizeof(hn::TFromD<D>)];
  HWY_ALIGN hn::TFromD<D> others[HWY_MAX_BYTES / sizeof(hn::TFromD<D>)];
  hn::Store(a, d, values);
  hn::Store(b, d, others);
  for (int64_t i = 0; i < lanes(d); ++i) values[i] = f(values[i], others[i]);
  return hn::Load(d, values);
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
template <class D, class V>
HWY_INLINE V exp_within_range(D d, V x) {
  using T = hn::TFromD<D>;
  constexpr int kMantissaBits = sizeof(T) == 4 ? 23 : 52;
  const hn::RebindToSigned<D> di;
  hwy::HWY_NAMESPACE::impl::ExpImpl<T> parts;
  const V rounding = constant(d, 0x1.8p23, 0x1.8p52);
  const V shifted = hn::MulAdd(x, constant(d, 1.44269504088896340736), rounding);
  const V n = hn::Sub(shifted, rounding);
  // ln 2 in two parts, so that n times the first is exact.
  const V near = hn::NegMulAdd(n, constant(d, 0.693145751953125, 0.6931471805596629565116018), x);
  const V r = hn::NegMulAdd(
      n, constant(d, 1.428606765330187045e-6, 0.28235290563031577122588448175e-12), near);
  const V mantissa = hn::Add(parts.ExpPoly(d, r), constant(d, 1));
  const auto exponent = hn::ShiftLeft<kMantissaBits>(hn::BitCast(di, shifted));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, mantissa), exponent));
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

/// From exp(|x| / 2), which overflows only where the result does.
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

/// exp(-a b) for a, b >= 0, with the rounding of their product made good; NaN if one is.
template <class D, class V>
HWY_INLINE V exp_minus_product(D d, V a, V b) {
  const V product = hn::Mul(a, b);
  const V rounded = rounding_of_product(d, a, b, product);
  const V x = hn::Neg(product);
  const V value = hn::IfThenZeroElse(hn::Lt(x, log_of_smallest(d)), exp_within_range(d, x));
#if HWY_NATIVE_FMA
  return hn::NegMulAdd(value, rounded, value);
#else  // By itself the small product would count as zero where the value is near that.
  return hn::Mul(value, hn::Sub(constant(d, 1), rounded));
#endif
}

/// exp(z^2) erfc(z) for z from 0 to where exp(-z^2) is 0: (1 + 2 z) times it is a polynomial of
/// (z - k) / (z + k). Shepherd and Laframboise, Mathematics of Computation 36 (1981).
template <class D, class V>
HWY_INLINE V scaled_erfc(D d, V z) {
  static constexpr float kFloat32[] = {
      1.27697837f,     -0.0927639529f, -0.166030422f,  0.164055064f,    -0.0542140752f,
      -0.00806144997f, 0.00866313744f, 0.00132829172f, -0.00126237725f, -0.000423322257f};
  static constexpr double kFloat64[] = {
      1.2329951186255526,     -0.13962111684056261,    0.015379652102606335,
      0.068097054254708259,   -0.10103906603558883,    0.093732834997800107,
      -0.066330365827194052,  0.03716751554495891,     -0.016197733896081708,
      0.0050319699333652435,  -0.00075777431195368805, -0.00019925661348791846,
      0.00015062572040252812, -2.4398824898573882e-05, -1.1232269801279568e-05,
      5.7071450402890541e-06, 3.1031025661972928e-07,  -8.189831956867985e-07,
      5.8454934619448411e-08, 1.0181275012136232e-07,  -9.297814102078907e-09,
      -8.8511592234498892e-09};
  const V k = constant(d, 2, 4);
  const V sum = hn::Add(z, k);
  const V slope = hn::MulAdd(constant(d, 2), z, constant(d, 1));
  const V both = hn::Div(constant(d, 1), hn::Mul(sum, slope));
  const V at = hn::Mul(hn::Mul(hn::Sub(z, k), slope), both);
  const V scale = hn::Mul(sum, both);
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    return hn::Mul(polynomial(d, at, kFloat32), scale);
  } else {
    return hn::Mul(polynomial(d, at, kFloat64), scale);
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
  const V far = hn::NegMulAdd(exp_minus_product(d, z, z), scaled_erfc(d, z), constant(d, 1));
  V near;
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    near = hn::Mul(z, polynomial(d, hn::Mul(z, z), kFloat32));
  } else {
    near = hn::Mul(z, polynomial(d, hn::Mul(z, z), kFloat64));
  }
  return hn::CopySignToAbs(hn::IfThenElse(hn::Lt(z, constant(d, 1)), near, far), x);
}

/// The normal distribution at x: its function and sqrt(2 pi) times its density.
template <class D, class V>
HWY_INLINE void normal(D d, V x, V* below, V* density) {
  const V size = at_most(hn::Abs(x), constant(d, 14.1, 38.7));
  *density = exp_minus_product(d, hn::Mul(size, constant(d, 0.5)), size);
  const V z = hn::Mul(size, constant(d, 0.70710678118654752440));
  const V tail = hn::Mul(hn::Mul(*density, constant(d, 0.5)), scaled_erfc(d, z));
  *below = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(constant(d, 1), tail));
}

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
