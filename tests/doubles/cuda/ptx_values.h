/// How values lie in slots, for the steps of instructions.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace tandem::doubles::ptx {

/// A float32 whose subnormal values count as zero (.ftz).
struct Flushed {};
/// The 16-bit floats, which are computed with as float32.
struct Half {};
struct Bfloat {};

template <class T>
struct ValueOf {
  using type = T;
};
template <>
struct ValueOf<Flushed> {
  using type = float;
};
template <>
struct ValueOf<Half> {
  using type = float;
};
template <>
struct ValueOf<Bfloat> {
  using type = float;
};
/// What is computed with.
template <class T>
using Value = typename ValueOf<T>::type;

inline float flush(float x) {
  return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0F, x) : x;
}

inline float float_of_half(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000U} << 16;
  const uint32_t magnitude = bits & 0x7fffU;
  if (magnitude >= 0x7c00)
    return std::bit_cast<float>(sign | 0x7f800000U | (magnitude & 0x3ff) << 13);
  const float value =
      std::ldexp(static_cast<float>(magnitude & 0x3ff) + (magnitude >= 0x400 ? 1024.0F : 0.0F),
                 magnitude >= 0x400 ? static_cast<int>(magnitude >> 10) - 25 : -24);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

/// To the nearest, ties to even.
inline uint16_t half_of_float(float x) {
  const auto sign = static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16 & 0x8000U);
  const float magnitude = std::fabs(x);
  if (std::isnan(x)) return 0x7fff;
  if (magnitude >= 65520.0F) return sign | 0x7c00U;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int shift = std::max(exponent - 11, -24);  // The weight of the last bit.
  const auto steps = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, -shift)));
  // A number of steps that carries into the next exponent does so in the bits, too.
  const auto base = static_cast<uint32_t>(shift + 24) << 10;
  return static_cast<uint16_t>(sign | (base + steps));
}

inline uint16_t bfloat_of_float(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return 0x7fff;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <class T>
Value<T> read(uint64_t slot) {
  if constexpr (std::is_same_v<T, Flushed>) {
    return flush(std::bit_cast<float>(static_cast<uint32_t>(slot)));
  } else if constexpr (std::is_same_v<T, Half>) {
    return float_of_half(static_cast<uint16_t>(slot));
  } else if constexpr (std::is_same_v<T, Bfloat>) {
    return std::bit_cast<float>(static_cast<uint32_t>(slot) << 16);
  } else if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<float>(static_cast<uint32_t>(slot));
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<double>(slot);
  } else if constexpr (std::is_same_v<T, bool>) {
    return (slot & 1) != 0;
  } else {
    return static_cast<T>(slot);
  }
}

template <class T>
void write(uint64_t& slot, Value<T> value) {
  if constexpr (std::is_same_v<T, Flushed>) {
    slot = std::bit_cast<uint32_t>(flush(value));
  } else if constexpr (std::is_same_v<T, Half>) {
    slot = half_of_float(value);
  } else if constexpr (std::is_same_v<T, Bfloat>) {
    slot = bfloat_of_float(value);
  } else if constexpr (std::is_same_v<T, float>) {
    slot = std::bit_cast<uint32_t>(value);
  } else if constexpr (std::is_same_v<T, double>) {
    slot = std::bit_cast<uint64_t>(value);
  } else {
    slot = static_cast<uint64_t>(value);  // Signed numbers carry their sign up.
  }
}

}  // namespace tandem::doubles::ptx
