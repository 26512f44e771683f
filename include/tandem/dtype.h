/// Element types of tensors. Values, not objects: any thread may use them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

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

namespace internal {

template <class T, class... Others>
inline constexpr bool kIsAmong = (std::is_same_v<T, Others> || ...);

/// Whether a C++ type is the type of a DType's elements; long and long long are both int64's.
template <class T>
inline constexpr bool kHasDType =
    kIsAmong<T, float, double, uint8_t, int32_t, int64_t, long, long long, bool>;

}  // namespace internal

/// The DType of a C++ type: `dtype_of<float>` is DType::float32.
template <class T>
inline constexpr DType dtype_of = [] {
  static_assert(internal::kHasDType<T>,
                "tandem: float, double, uint8_t, int32_t, int64_t and bool have a DType");
  return sizeof(T) == sizeof(int64_t) ? DType::int64 : DType::int32;
}();
template <>
inline constexpr DType dtype_of<float> = DType::float32;
template <>
inline constexpr DType dtype_of<double> = DType::float64;
template <>
inline constexpr DType dtype_of<uint8_t> = DType::uint8;
template <>
inline constexpr DType dtype_of<bool> = DType::boolean;

}  // namespace tandem
