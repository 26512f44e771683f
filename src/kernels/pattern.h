/// A number as the bytes of one element, for kernels that know elements only by their size.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/conversion.h"
#include "tandem/dtype.h"

namespace tandem::kernels {

/// Calls f(U()) with the unsigned type that is as large as an element.
template <class F>
decltype(auto) with_word(DType dtype, F f) {
  const size_t size = size_of(dtype);
  if (size == 1) return f(uint8_t());
  if (size == 2) return f(uint16_t());
  if (size == 4) return f(uint32_t());
  return f(uint64_t());
}

class Pattern {
 public:
  Pattern(double value, DType dtype) { set(value, dtype); }

  template <class U>
  U word() const {
    U word;
    std::memcpy(&word, bytes_.data(), sizeof(U));
    return word;
  }

 private:
  void set(double value, DType dtype) {
    switch (dtype) {
      case DType::float32:
        return set(static_cast<float>(value));
      case DType::float64:
        return set(value);
      case DType::float16:
        return set(converted<Float16>(value));
      case DType::bfloat16:
        return set(converted<BFloat16>(value));
      case DType::uint8:
        return set(converted<uint8_t>(value));
      case DType::int32:
        return set(converted<int32_t>(value));
      case DType::int64:
        return set(converted<int64_t>(value));
      case DType::boolean:
        return set(static_cast<uint8_t>(value != 0));
      case DType::int8:
        return set(converted<int8_t>(value));
      case DType::int16:
        return set(converted<int16_t>(value));
      case DType::uint16:
        return set(converted<uint16_t>(value));
      case DType::uint32:
        return set(converted<uint32_t>(value));
      case DType::uint64:
        return set(converted<uint64_t>(value));
    }
  }

  template <class T>
  void set(T value) {
    std::memcpy(bytes_.data(), &value, sizeof(T));
  }

  std::array<char, 8> bytes_{};
};

}  // namespace tandem::kernels
