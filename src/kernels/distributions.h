/// The distributions of random numbers, and what each is told about itself.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "op/attrs.h"

namespace tandem::kernels {

enum class Distribution { normal, truncated_normal, uniform, integers, bernoulli };

struct DistributionParameters {
  DistributionParameters(Distribution distribution, const op::Attrs& attrs) {
    if (distribution == Distribution::integers) {
      least = attrs.get<int64_t>("minval");
      range = static_cast<uint64_t>(attrs.get<int64_t>("maxval")) - static_cast<uint64_t>(least);
    } else {
      a = attrs.get<double>("a");
      b = attrs.get<double>("b");
    }
  }

  double a = 0;  ///< Mean, lower end, or probability.
  double b = 0;  ///< Standard deviation or upper end.
  int64_t least = 0;
  uint64_t range = 0;  ///< How many whole numbers there are from `least` on.

  /// The largest number of a uniform distribution: rounding must not reach the upper end.
  template <class T>
  T last() const {
    return a < b ? std::nextafter(static_cast<T>(b), static_cast<T>(a)) : static_cast<T>(a);
  }

  /// A Bernoulli draw's share of true, of 2^32.
  uint64_t of_2_32() const { return static_cast<uint64_t>(a * 0x1p32); }
};

/// Evenly spread over [0, 1) in these steps.
template <class T>
inline constexpr T kUnitStep = sizeof(T) == 4 ? T(0x1p-24) : T(0x1p-52);

/// The probability of a normal number being within 2.
inline constexpr double kWithinTwo = 0.95449973610364158560;

/// The inverse of erf within [-0.96, 0.96], odd, is x times a polynomial in
/// w = -log(1 - x^2) - kInverseErfCentre: Giles, "Approximating the erfinv function" (GPU Computing
/// Gems, 2011). From the highest power on.
template <class T>
inline constexpr T kInverseErfCentre = sizeof(T) == 4 ? T(2.5) : T(3.125);

template <class T>
inline constexpr std::array<T, 23> kInverseErf = {
    -3.6444120640178196996e-21, -1.685059138182016589e-19,  1.2858480715256400167e-18,
    1.115787767802518096e-17,   -1.333171662854620906e-16,  2.0972767875968561637e-17,
    6.6376381343583238325e-15,  -4.0545662729752068639e-14, -8.1519341976054721522e-14,
    2.6335093153082322977e-12,  -1.2975133253453532498e-11, -5.4154120542946279317e-11,
    1.051212273321532285e-09,   -4.1126339803469836976e-09, -2.9070369957882005086e-08,
    4.2347877827932403518e-07,  -1.3654692000834678645e-06, -1.3882523362786468719e-05,
    0.0001867342080340571352,   -0.00074070253416626697512, -0.0060336708714301490533,
    0.24015818242558961693,     1.6536545626831027356};

template <>
inline constexpr std::array<float, 9> kInverseErf<float> = {
    2.81022636e-08f, 3.43273939e-07f, -3.5233877e-06f, -4.39150654e-06f, 0.00021858087f,
    -0.00125372503f, -0.00417768164f, 0.246640727f,    1.50140941f};

}  // namespace tandem::kernels
