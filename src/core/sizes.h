/// Sums and products of sizes that users give. What overflows becomes the largest number, which
/// Shape refuses and no memory has.
#pragma once

#include <cstdint>
#include <limits>

namespace tandem {

template <class T>
T size_sum(T a, T b) {
  T sum;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<T>::max() : sum;
}

template <class T>
T size_product(T a, T b) {
  T product;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<T>::max() : product;
}

}  // namespace tandem
