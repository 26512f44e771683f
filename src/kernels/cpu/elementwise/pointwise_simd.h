// Run functions made from functions of vectors, for the instruction set that is being compiled.
// Included anew for each of them, after hwy/highway.h; therefore the guard that toggles.
#if defined(TANDEM_KERNELS_CPU_POINTWISE_SIMD_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_CPU_POINTWISE_SIMD_H
#undef TANDEM_KERNELS_CPU_POINTWISE_SIMD_H
#else
#define TANDEM_KERNELS_CPU_POINTWISE_SIMD_H
#endif

#include <hwy/highway.h>

#include <type_traits>

#include "kernels/cpu/elementwise/pointwise.h"
#include "kernels/cpu/simd.h"
#include "kernels/text.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

/// One input of a run: it goes on along the run, or stays.
template <class T, bool kGoesOn>
struct Side {
  explicit Side(const T* from) : p(from), first(kGoesOn ? T() : *from) {}
  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, int64_t i) const {
    if constexpr (kGoesOn) {
      return hn::LoadU(d, p + i);
    } else {
      return hn::Set(d, first);
    }
  }
  const T* p;
  T first;
};

/// What a function of vectors, f(tag, vectors..), derives from.
struct Unary {
  static constexpr int kInputs = 1;
  static constexpr bool kLong = false;
};
struct Binary {
  static constexpr int kInputs = 2;
  static constexpr bool kLong = false;
};

/// It is made from the parameters if it has any.
template <class F>
HWY_INLINE F made(const double* parameters) {
  if constexpr (std::is_constructible_v<F, const double*>) {
    return F(parameters);
  } else {
    return F();
  }
}

/// For functions of a few instructions: a loop for each way of going on.
template <class F, class T, unsigned kGoingOn>
void run_short(const T* const* inputs, T* out, int64_t count, const double* parameters) {
  const F f = made<F>(parameters);
  const Side<T, (kGoingOn & 1) != 0> a(inputs[0]);
  if constexpr (F::kInputs == 1) {
    for_vectors<T>(count,
                   [&](auto d, int64_t i) HWY_ATTR { hn::StoreU(f(d, a.load(d, i)), d, out + i); });
  } else {
    const Side<T, (kGoingOn & 2) != 0> b(inputs[1]);
    for_vectors<T>(count, [&](auto d, int64_t i) HWY_ATTR {
      hn::StoreU(f(d, a.load(d, i), b.load(d, i)), d, out + i);
    });
  }
}

/// An element that is valid for every function fills up the last vector.
template <class D, class T>
HWY_INLINE hn::Vec<D> loaded(D d, const T* p, bool goes_on, int64_t i, int64_t left) {
  if (!goes_on) return hn::Set(d, *p);
  return left >= lanes(d) ? hn::LoadU(d, p + i) : load_first(d, p + i, left, T(1));
}

/// For functions with kLong: their instructions are there only once.
template <class F, class T>
HWY_NOINLINE void run_any(const F& f, const T* const* inputs, unsigned going_on, T* out,
                          int64_t count) {
  const hn::ScalableTag<T> d;
  // What stays is read before anything is written.
  const T first[] = {*inputs[0], *inputs[F::kInputs - 1]};
  const auto side = [&](size_t k, int64_t i, int64_t left) HWY_ATTR {
    const bool goes_on = (going_on >> k & 1) != 0;
    return loaded(d, goes_on ? inputs[k] : &first[k], goes_on, i, left);
  };
  for (int64_t i = 0; i < count; i += lanes(d)) {
    const int64_t left = count - i;
    hn::Vec<decltype(d)> value;
    if constexpr (F::kInputs == 1) {
      value = f(d, side(0, i, left));
    } else {
      value = f(d, side(0, i, left), side(1, i, left));
    }
    if (left >= lanes(d)) {
      hn::StoreU(value, d, out + i);
    } else {
      store_first(d, value, out + i, left);
    }
  }
}

template <class F, class T, unsigned kGoingOn>
void run_long(const T* const* inputs, T* out, int64_t count, const double* parameters) {
  if (count > 0) run_any(made<F>(parameters), inputs, kGoingOn, out, count);
}

template <class F, class T, unsigned kGoingOn>
constexpr RunFn<T> run_of() {
  if constexpr (F::kLong) {
    return run_long<F, T, kGoingOn>;
  } else {
    return run_short<F, T, kGoingOn>;
  }
}

#if HWY_ONCE
template <class F, class T>
text::Text print(text::Listing& listing, const text::Text* inputs, int first_parameter) {
  const double parameters[] = {text::parameter(first_parameter),
                               text::parameter(first_parameter + 1)};
  const F f = made<F>(parameters);
  const text::TextTag<T> d{&listing};
  if constexpr (F::kInputs == 1) {
    return f(d, inputs[0]);
  } else {
    return f(d, inputs[0], inputs[1]);
  }
}
#endif

template <class F, class T>
constexpr Pointwise<T> pointwise(std::string_view name,
                                 std::array<std::string_view, 2> attributes = {}) {
  constexpr unsigned kAll = (1u << F::kInputs) - 1;
  Pointwise<T> function{name, F::kInputs, {}, attributes};
  function.runs[0] = run_staying<T, run_of<F, T, kAll>()>;
  function.runs[1] = run_of<F, T, 1>();
  if constexpr (F::kInputs == 2) {
    function.runs[2] = run_of<F, T, 2>();
    function.runs[3] = run_of<F, T, 3>();
  }
#if HWY_ONCE
  function.print = print<F, T>;
#endif
  return function;
}

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
