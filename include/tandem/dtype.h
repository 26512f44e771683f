/// Element types of tensors. Values, not objects: any thread may use them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tandem/export.h"

namespace tandem {

enum class DType : uint8_t {
  float32,
  float64,
  float16,
  bfloat16,
  uint8,
  int32,
  int64,
  boolean,
};

/// Bytes of one element.
TANDEM_API size_t size_of(DType dtype);

/// "float32", "int64", "bool", as TensorFlow prints them.
TANDEM_API std::string_view name_of(DType dtype);

constexpr bool is_floating(DType dtype) { return dtype <= DType::bfloat16; }

/// The DType of a C++ type: `dtype_of<float>` is DType::float32.
template <class T>
inline constexpr DType dtype_of = [] {
  static_assert(sizeof(T) == 0, "no DType for this C++ type");
  return DType::float32;
}();
template <>
inline constexpr DType dtype_of<float> = DType::float32;
template <>
inline constexpr DType dtype_of<double> = DType::float64;
template <>
inline constexpr DType dtype_of<uint8_t> = DType::uint8;
template <>
inline constexpr DType dtype_of<int32_t> = DType::int32;
template <>
inline constexpr DType dtype_of<int64_t> = DType::int64;
template <>
inline constexpr DType dtype_of<bool> = DType::boolean;

}  // namespace tandem
