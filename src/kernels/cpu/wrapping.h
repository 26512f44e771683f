/// Arithmetic whose whole numbers wrap round, which signed ones in C++ may not.
#pragma once

#include <type_traits>

namespace tandem::kernels::cpu {

/// `F` is std::plus, std::minus or std::multiplies.
template <template <class> class F>
struct Wrapping {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return F<T>()(a, b);
    } else {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(F<U>()(static_cast<U>(a), static_cast<U>(b)));
    }
  }
};

}  // namespace tandem::kernels::cpu
