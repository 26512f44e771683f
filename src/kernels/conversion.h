/// A number of one dtype as one of another: see `cast` in tandem/ops/shaping.h.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/half.h"

namespace tandem::kernels {

using core::BFloat16;
using core::Float16;

template <class T>
constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

/// A number rounded towards zero; beyond the limits of `To` it is the limit, and for NaN 0.
template <class To, class From>
To saturated(From x) {
  using Limits = std::numeric_limits<To>;
  constexpr auto kLeast = static_cast<From>(Limits::lowest());
  constexpr auto kEnd = static_cast<From>(Limits::max() / 2 + 1) * 2;
  const To within = static_cast<To>(x >= kLeast && x < kEnd ? x : From(0));
  return x >= kEnd ? Limits::max() : x < kLeast ? Limits::lowest() : within;
}

template <class To, class From>
To converted(From x) {
  if constexpr (kIsHalf<From>) {
    return converted<To>(to_float(x));
  } else if constexpr (std::is_same_v<To, Float16>) {
    return core::to_float16(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return core::to_bfloat16(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return saturated<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace tandem::kernels
