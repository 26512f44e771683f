/// Element types of tensors. Values, not objects: any thread may use them. Halves, small and
/// unsigned integers are stored as such and computed with wider numbers: what an op gives is
/// rounded, or wraps round. Where an op names dtypes that it takes, they are taken with these.
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
  int8,
  int16,
  uint16,
  uint32,
  uint64,
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
    kIsAmong<T, float, double, bool, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, long,
             unsigned long, long long, unsigned long long>;

}  // namespace internal

/// The DType of a C++ type: `dtype_of<float>` is DType::float32.
template <class T>
inline constexpr DType dtype_of = [] {
  static_assert(internal::kHasDType<T>,
                "tandem: float, double, bool and the integers of cstdint have a DType");
  constexpr bool kSigned = std::is_signed_v<T>;
  if constexpr (sizeof(T) == 1) return kSigned ? DType::int8 : DType::uint8;
  if constexpr (sizeof(T) == 2) return kSigned ? DType::int16 : DType::uint16;
  if constexpr (sizeof(T) == 4) return kSigned ? DType::int32 : DType::uint32;
  return kSigned ? DType::int64 : DType::uint64;
}();
template <>
inline constexpr DType dtype_of<float> = DType::float32;
template <>
inline constexpr DType dtype_of<double> = DType::float64;
template <>
inline constexpr DType dtype_of<bool> = DType::boolean;

}  // namespace tandem
