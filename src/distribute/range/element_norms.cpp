#include "distribute/range/element_norms.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tandem::distribute {
namespace {

/// Calls `use` with a zero of the elements' type.
template <class Use>
auto with_type(DType dtype, const Use& use) {
  return dtype == DType::float32 ? use(0.0F) : use(0.0);
}

}  // namespace

double squares_of(DType dtype, std::span<const std::byte> elements) {
  return with_type(dtype, [&]<class T>(T) {
    const auto* const values = reinterpret_cast<const T*>(elements.data());
    double sum = 0;
    for (size_t i = 0; i < elements.size() / sizeof(T); ++i) {
      const auto value = static_cast<double>(values[i]);
      sum += value * value;
    }
    return sum;
  });
}

double scale_of_all(double squares, double limit) {
  const double norm = std::sqrt(squares);
  return limit / std::max(norm, limit) + (norm - norm);
}

double scale_of_one(DType dtype, double squares, double limit) {
  return with_type(dtype, [&]<class T>(T) {
    const T norm = std::sqrt(static_cast<T>(squares));
    const auto most = static_cast<T>(limit);
    return static_cast<double>(most / std::max(norm, most));
  });
}

void multiply(DType dtype, std::span<std::byte> elements, double scale) {
  with_type(dtype, [&]<class T>(T) {
    auto* const values = reinterpret_cast<T*>(elements.data());
    for (size_t i = 0; i < elements.size() / sizeof(T); ++i) values[i] *= static_cast<T>(scale);
  });
}

}  // namespace tandem::distribute
