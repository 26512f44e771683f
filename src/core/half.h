/// The two 16-bit floats as stored. Conversion from float32 goes to the nearest, ties to even.
#pragma once

#include <bit>
#include <cstdint>

namespace tandem::core {

struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

inline float to_float(BFloat16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

inline BFloat16 to_bfloat16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (x != x) return {static_cast<uint16_t>((bits >> 16) | 0x40)};  // Stays a NaN when it is cut.
  return {static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}

inline float to_float(Float16 x) {
  const uint32_t sign = uint32_t{x.bits & 0x8000u} << 16;
  const uint32_t rest = x.bits & 0x7fffu;
  if (rest >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000u | (rest & 0x3ff) << 13);
  // Subnormals are multiples of 2^-24. Of others the exponent changes by the difference of the
  // biases.
  const uint32_t magnitude = rest < 0x400
                                 ? std::bit_cast<uint32_t>(static_cast<float>(rest) * 0x1p-24f)
                                 : (rest << 13) + 0x38000000;
  return std::bit_cast<float>(sign | magnitude);
}

inline Float16 to_float16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  const auto with_sign = [sign](uint32_t rest) {
    return Float16{static_cast<uint16_t>(sign | rest)};
  };
  if (magnitude > 0x7f800000) return with_sign(0x7e00);   // NaN.
  if (magnitude >= 0x477ff000) return with_sign(0x7c00);  // From 65520 on, infinity.
  if (magnitude <
      0x38800000) {  // Below 2^-14: adding 0.5 rounds to the unit of a subnormal, 2^-24.
    const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
    return with_sign(std::bit_cast<uint32_t>(rounded) - 0x3f000000);
  }
  const uint32_t odd = magnitude >> 13 & 1;
  return with_sign((magnitude - 0x38000000 + 0xfff + odd) >> 13);
}

}  // namespace tandem::core
