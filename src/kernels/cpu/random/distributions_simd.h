// Turns random words into numbers of a distribution, for the instruction set that is being
// compiled. Included anew for each of them, after hwy/highway.h; therefore the guard that toggles.
//
// A distribution takes whole blocks of four words and makes kPerBlock elements of each. It works on
// whole vectors: up to a vector beyond `count` is read and written.
#if defined(TANDEM_KERNELS_CPU_DISTRIBUTIONS_SIMD_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_CPU_DISTRIBUTIONS_SIMD_H
#undef TANDEM_KERNELS_CPU_DISTRIBUTIONS_SIMD_H
#else
#define TANDEM_KERNELS_CPU_DISTRIBUTIONS_SIMD_H
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <numbers>

#include "kernels/cpu/simd.h"
#include "kernels/distributions.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

/// Floats take one word each, doubles two.
template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

/// Evenly spread over [0, 1) in steps of kUnitStep.
template <class D, class V>
HWY_INLINE hn::Vec<D> unit(D d, V bits) {
  using T = hn::TFromD<D>;
  if constexpr (sizeof(T) == 4) {
    const hn::RebindToSigned<D> whole;
    return hn::Mul(hn::ConvertTo(d, hn::BitCast(whole, hn::ShiftRight<8>(bits))),
                   hn::Set(d, kUnitStep<T>));
  } else {  // The bits become the fraction of a number in [1, 2).
    const auto one = hn::Set(d, T(1));
    const hn::RebindToUnsigned<D> u;
    const auto number = hn::Or(hn::ShiftRight<12>(bits), hn::BitCast(u, one));
    return hn::Sub(hn::BitCast(d, number), one);
  }
}

/// An element from its own bits.
template <class T>
struct Elementwise {
  using Element = T;
  static constexpr int64_t kPerBlock = 16 / sizeof(T);

  template <class F>
  static HWY_INLINE void apply(const uint32_t* words, int64_t count, T* out, const F& f) {
    const hn::ScalableTag<T> d;
    const hn::RebindToUnsigned<decltype(d)> u;
    const auto* bits = reinterpret_cast<const BitsOf<T>*>(words);
    for (int64_t i = 0; i < count; i += lanes(d)) {
      hn::StoreU(f(d, unit(d, hn::LoadU(u, bits + i))), d, out + i);
    }
  }
};

template <class T>
class Uniform : public Elementwise<T> {
 public:
  explicit Uniform(const DistributionParameters& p)
      : low_(static_cast<T>(p.a)), width_(static_cast<T>(p.b - p.a)), last_(p.last<T>()) {}

  void operator()(const uint32_t* words, int64_t count, T* out) const {
    this->apply(words, count, out, [&](auto d, auto u) HWY_ATTR {
      return hn::Min(hn::MulAdd(u, hn::Set(d, width_), hn::Set(d, low_)), hn::Set(d, last_));
    });
  }

 private:
  T low_, width_, last_;
};

/// Box and Muller: two independent normal numbers are a point of random direction and distance.
template <class T>
class Normal {
 public:
  using Element = T;
  static constexpr int64_t kPerBlock = 16 / sizeof(T);

  explicit Normal(const DistributionParameters& p)
      : mean_(static_cast<T>(p.a)), stddev_(static_cast<T>(p.b)) {}

  void operator()(const uint32_t* words, int64_t count, T* out) const {
    const hn::ScalableTag<T> d;
    const hn::RebindToUnsigned<decltype(d)> u;
    const auto* bits = reinterpret_cast<const BitsOf<T>*>(words);
    const auto mean = hn::Set(d, mean_);
    const auto stddev = hn::Set(d, stddev_);
    for (int64_t i = 0; i < count; i += 2 * lanes(d)) {
      hn::Vec<decltype(u)> first;
      hn::Vec<decltype(u)> second;
      hn::LoadInterleaved2(u, bits + i, first, second);
      const auto rest = hn::Sub(hn::Set(d, T(1)), unit(d, first));  // Never 0.
      const auto distance = hn::Mul(stddev, hn::Sqrt(hn::Mul(hn::Set(d, T(-2)), hn::Log(d, rest))));
      const auto direction = hn::Mul(hn::Set(d, 2 * std::numbers::pi_v<T>), unit(d, second));
      hn::StoreInterleaved2(hn::MulAdd(distance, hn::Cos(d, direction), mean),
                            hn::MulAdd(distance, hn::Sin(d, direction), mean), d, out + i);
    }
  }

 private:
  T mean_, stddev_;
};

template <class D>
HWY_INLINE hn::Vec<D> inverse_erf(D d, hn::Vec<D> x) {
  using T = hn::TFromD<D>;
  const auto log = hn::Log(d, hn::NegMulAdd(x, x, hn::Set(d, T(1))));
  const auto w = hn::Sub(hn::Neg(log), hn::Set(d, kInverseErfCentre<T>));
  auto sum = hn::Zero(d);
  for (const T coefficient : kInverseErf<T>) sum = hn::MulAdd(sum, w, hn::Set(d, coefficient));
  return hn::Mul(x, sum);
}

/// Uses the inverse of the distribution function: an element takes one number, where drawing again
/// would take any number of them.
template <class T>
class TruncatedNormal : public Elementwise<T> {
 public:
  explicit TruncatedNormal(const DistributionParameters& p)
      : mean_(static_cast<T>(p.a)), stddev_(static_cast<T>(p.b)) {}

  void operator()(const uint32_t* words, int64_t count, T* out) const {
    constexpr T kWithin = T(kWithinTwo);
    this->apply(words, count, out, [&](auto d, auto u) HWY_ATTR {
      const auto centred = hn::MulAdd(u, hn::Set(d, T(2)), hn::Set(d, kUnitStep<T> - T(1)));
      const auto z = hn::Mul(inverse_erf(d, hn::Mul(centred, hn::Set(d, kWithin))),
                             hn::Set(d, std::numbers::sqrt2_v<T>));
      const auto limited = hn::Max(hn::Min(z, hn::Set(d, T(2))), hn::Set(d, T(-2)));
      return hn::MulAdd(limited, hn::Set(d, stddev_), hn::Set(d, mean_));
    });
  }

 private:
  T mean_, stddev_;
};

/// The upper half of bits times range, with so many bits that no number is favoured by more than
/// 2^-32: 64 for int32, 128 for int64.
template <class T>
class Integers {
 public:
  using Element = T;
  static constexpr int64_t kPerBlock = 8 / sizeof(T);

  explicit Integers(const DistributionParameters& p)
      : least_(static_cast<uint64_t>(p.least)), range_(p.range) {}

  void operator()(const uint32_t* words, int64_t count, T* out) const {
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t* bits = words + 4 / kPerBlock * i;
      const uint64_t low = uint64_t{bits[1]} << 32 | bits[0];
      uint64_t drawn = upper(low, 0);
      if constexpr (sizeof(T) == 8) {
        drawn = upper(uint64_t{bits[3]} << 32 | bits[2], drawn);
      }
      out[i] = static_cast<T>(least_ + drawn);
    }
  }

 private:
  HWY_INLINE uint64_t upper(uint64_t bits, uint64_t carried) const {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * range_ + carried) >> 64);
  }

  uint64_t least_;
  uint64_t range_;
};

class Bernoulli {
 public:
  using Element = bool;
  static constexpr int64_t kPerBlock = 4;

  explicit Bernoulli(const DistributionParameters& p) : below_(p.of_2_32()) {}

  void operator()(const uint32_t* words, int64_t count, bool* out) const {
    if (below_ == 0) {
      std::fill_n(out, count, false);
      return;
    }
    const auto last = static_cast<uint32_t>(below_ - 1);
    for (int64_t i = 0; i < count; ++i) out[i] = words[i] <= last;
  }

 private:
  uint64_t below_;  ///< The share of true, of 2^32.
};

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
