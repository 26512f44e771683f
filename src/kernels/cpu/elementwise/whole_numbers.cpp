// The functions of arithmetic and selection for whole numbers: they wrap round, and never trap.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <type_traits>

#include "kernels/cpu/elementwise/pointwise.h"
#include "kernels/cpu/wrapping.h"

namespace tandem::kernels::cpu {
namespace {

constexpr Wrapping<std::plus> plus;
constexpr Wrapping<std::minus> minus;
constexpr Wrapping<std::multiplies> times;

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    return plus(a, b);
  }
};
struct Sub {
  template <class T>
  T operator()(T a, T b) const {
    return minus(a, b);
  }
};
struct Mul {
  template <class T>
  T operator()(T a, T b) const {
    return times(a, b);
  }
};

/// Dividing the smallest number by -1 would trap.
struct FloorDiv {
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return minus(T(0), a);
      return static_cast<T>(a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0));
    } else {
      return static_cast<T>(a / b);
    }
  }
};

struct Mod {
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0) return 0;
    return minus(a, times(FloorDiv()(a, b), b));
  }
};

/// Powers are computed by squaring.
struct Pow {
  template <class T>
  T operator()(T a, T b) const {
    if (b < 0) return a == 1 ? T(1) : a == -1 ? T(b % 2 == 0 ? 1 : -1) : T(0);
    T result = 1;
    for (; b > 0; b /= 2) {
      if (b % 2 != 0) result = times(result, a);
      a = times(a, a);
    }
    return result;
  }
};

struct Maximum {
  template <class T>
  T operator()(T a, T b) const {
    return std::max(a, b);
  }
};
struct Minimum {
  template <class T>
  T operator()(T a, T b) const {
    return std::min(a, b);
  }
};
struct SquaredDifference {
  template <class T>
  T operator()(T a, T b) const {
    const T difference = minus(a, b);
    return times(difference, difference);
  }
};
struct Neg {
  template <class T>
  T operator()(T x) const {
    return minus(T(0), x);
  }
};
struct Abs {
  template <class T>
  T operator()(T x) const {
    return x < 0 ? minus(T(0), x) : x;
  }
};
struct Sign {
  template <class T>
  T operator()(T x) const {
    return static_cast<T>((x > 0) - (x < 0));
  }
};
struct Square {
  template <class T>
  T operator()(T x) const {
    return times(x, x);
  }
};

template <class F, class T>
void run_unary(const T* const* inputs, T* out, int64_t count, const double*) {
  const T* x = inputs[0];
  for (int64_t i = 0; i < count; ++i) out[i] = F()(x[i]);
}

template <class F, class T, bool kA, bool kB>
void run_binary(const T* const* inputs, T* out, int64_t count, const double*) {
  const T* a = inputs[0];
  const T* b = inputs[1];
  if (count == 0) return;
  const T first_a = *a;
  const T first_b = *b;
  for (int64_t i = 0; i < count; ++i) out[i] = F()(kA ? a[i] : first_a, kB ? b[i] : first_b);
}

/// The nearest whole number of the type; `limit` may lie far outside of it.
template <class T>
T saturated(double limit) {
  constexpr auto kLeast = static_cast<double>(std::numeric_limits<T>::min());
  constexpr auto kMost = static_cast<double>(std::numeric_limits<T>::max());
  if (limit <= kLeast) return std::numeric_limits<T>::min();
  if (limit >= kMost) return std::numeric_limits<T>::max();
  return static_cast<T>(limit);
}

template <class T>
void run_clip(const T* const* inputs, T* out, int64_t count, const double* parameters) {
  const T* x = inputs[0];
  const T low = saturated<T>(std::ceil(parameters[0]));
  const T high = saturated<T>(std::floor(parameters[1]));
  for (int64_t i = 0; i < count; ++i) out[i] = std::min(std::max(x[i], low), high);
}

template <class T, RunFn<T> kRun>
constexpr Pointwise<T> unary(std::string_view name,
                             std::array<std::string_view, 2> attributes = {}) {
  return {name, 1, {run_staying<T, kRun>, kRun}, attributes};
}

template <class F, class T>
constexpr Pointwise<T> binary(std::string_view name) {
  return {name,
          2,
          {run_staying<T, run_binary<F, T, true, true>>, run_binary<F, T, true, false>,
           run_binary<F, T, false, true>, run_binary<F, T, true, true>}};
}

template <class T, size_t kFirst, size_t kSecond>
constexpr auto joined(const std::array<Pointwise<T>, kFirst>& first,
                      const std::array<Pointwise<T>, kSecond>& second) {
  std::array<Pointwise<T>, kFirst + kSecond> all{};
  std::ranges::copy(second, std::ranges::copy(first, all.begin()).out);
  return all;
}

template <class T>
constexpr std::array kOfAll = {
    binary<Add, T>("add"),         binary<Sub, T>("sub"),
    binary<Mul, T>("mul"),         binary<FloorDiv, T>("floor_div"),
    binary<Mod, T>("mod"),         binary<Maximum, T>("maximum"),
    binary<Minimum, T>("minimum"), binary<SquaredDifference, T>("squared_difference"),
};

template <class T>
constexpr std::array kOfSigned = joined(kOfAll<T>,
                                        std::array{
                                            binary<Pow, T>("pow"),
                                            unary<T, run_unary<Neg, T>>("neg"),
                                            unary<T, run_unary<Abs, T>>("abs"),
                                            unary<T, run_unary<Sign, T>>("sign"),
                                            unary<T, run_unary<Square, T>>("square"),
                                            unary<T, run_clip<T>>("clip", {"low", "high"}),
                                        });

}  // namespace

template <>
Functions<int32_t> whole_number_functions() {
  return kOfSigned<int32_t>;
}
template <>
Functions<int64_t> whole_number_functions() {
  return kOfSigned<int64_t>;
}
template <>
Functions<uint8_t> whole_number_functions() {
  return kOfAll<uint8_t>;
}

}  // namespace tandem::kernels::cpu
