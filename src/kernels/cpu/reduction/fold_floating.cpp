// Folds of floating numbers (fold.h), in vectors and with several sums at once, which the compiler
// may not do of itself: it would change the order of the additions.
//
// This file is compiled once per instruction set; the best one is chosen when a kernel is prepared.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/cpu/reduction/fold.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/reduction/fold_floating.cpp"
#include <hwy/foreach_target.h>
// These come after foreach_target.h, which sets what they expand to.
#include <hwy/highway.h>

#include "kernels/cpu/simd.h"

#ifndef TANDEM_FOLD_FLOATING_ONCE
#define TANDEM_FOLD_FLOATING_ONCE
namespace tandem::kernels::cpu {
namespace {

// Longer folds are made of partial ones, so that the error of a sum does not grow with the length.
constexpr int64_t kRun = 2048;
constexpr int64_t kRows = 128;

}  // namespace
}  // namespace tandem::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

struct Add {
  template <class T>
  static T start() {
    return 0;
  }
  template <class V>
  static HWY_INLINE V join(V a, V b) {
    return hn::Add(a, b);
  }
};

struct Mul {
  template <class T>
  static T start() {
    return 1;
  }
  template <class V>
  static HWY_INLINE V join(V a, V b) {
    return hn::Mul(a, b);
  }
};

// The vector instructions drop a NaN on one of their sides.

struct Max {
  template <class T>
  static T start() {
    return -std::numeric_limits<T>::infinity();
  }
  template <class V>
  static HWY_INLINE V join(V a, V b) {
    return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
  }
};

struct Min {
  template <class T>
  static T start() {
    return std::numeric_limits<T>::infinity();
  }
  template <class V>
  static HWY_INLINE V join(V a, V b) {
    return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b);
  }
};

template <class F, class T>
T join_two(T a, T b) {
  const hn::CappedTag<T, 1> d;
  return hn::GetLane(F::join(hn::Set(d, a), hn::Set(d, b)));
}

template <class F, class D, class T = hn::TFromD<D>>
HWY_INLINE T fold_lanes(D d, hn::Vec<D> v) {
  if constexpr (std::is_same_v<F, Add>) {
    return hn::GetLane(hn::SumOfLanes(d, v));
  } else {
    HWY_ALIGN T lane[HWY_MAX_BYTES / sizeof(T)];
    hn::Store(v, d, lane);
    T result = lane[0];
    for (int64_t i = 1; i < lanes(d); ++i) result = join_two<F>(result, lane[i]);
    return result;
  }
}

template <class F, class T>
T fold_short(const T* x, int64_t count) {
  const hn::ScalableTag<T> d;
  const int64_t n = lanes(d);
  const auto start = hn::Set(d, F::template start<T>());
  auto s0 = start, s1 = start, s2 = start, s3 = start;
  int64_t i = 0;
  for (; i + 4 * n <= count; i += 4 * n) {
    s0 = F::join(s0, hn::LoadU(d, x + i));
    s1 = F::join(s1, hn::LoadU(d, x + i + n));
    s2 = F::join(s2, hn::LoadU(d, x + i + 2 * n));
    s3 = F::join(s3, hn::LoadU(d, x + i + 3 * n));
  }
  for (; i + n <= count; i += n) s0 = F::join(s0, hn::LoadU(d, x + i));
  T result = fold_lanes<F>(d, F::join(F::join(s0, s1), F::join(s2, s3)));
  for (; i < count; ++i) result = join_two<F>(result, x[i]);
  return result;
}

template <class F, class T>
T fold_run(const T* x, int64_t count) {
  if (count <= kRun) return fold_short<F>(x, count);
  const int64_t half = (count / 2 + kRun - 1) / kRun * kRun;
  return join_two<F>(fold_run<F>(x, half), fold_run<F>(x + half, count - half));
}

/// One vector of columns; four folds, so that they need not wait for each other.
template <class F, class D, class T>
HWY_INLINE void fold_narrow_columns(D d, const Rows<T>& at, int64_t column, T* out) {
  const auto start = hn::Set(d, F::template start<T>());
  auto s0 = start, s1 = start, s2 = start, s3 = start;
  const T* x = at.x + column;
  int64_t row = 0;
  for (; row + 4 <= at.rows; row += 4, x += 4 * at.stride) {
    s0 = F::join(s0, hn::LoadU(d, x));
    s1 = F::join(s1, hn::LoadU(d, x + at.stride));
    s2 = F::join(s2, hn::LoadU(d, x + 2 * at.stride));
    s3 = F::join(s3, hn::LoadU(d, x + 3 * at.stride));
  }
  for (; row < at.rows; ++row, x += at.stride) s0 = F::join(s0, hn::LoadU(d, x));
  const auto all = F::join(F::join(s0, s1), F::join(s2, s3));
  hn::StoreU(F::join(hn::LoadU(d, out + column), all), d, out + column);
}

/// Four vectors of columns.
template <class F, class D, class T>
HWY_INLINE void fold_wide_columns(D d, const Rows<T>& at, int64_t column, T* out) {
  const int64_t n = lanes(d);
  const auto start = hn::Set(d, F::template start<T>());
  auto s0 = start, s1 = start, s2 = start, s3 = start;
  const T* x = at.x + column;
  for (int64_t row = 0; row < at.rows; ++row, x += at.stride) {
    s0 = F::join(s0, hn::LoadU(d, x));
    s1 = F::join(s1, hn::LoadU(d, x + n));
    s2 = F::join(s2, hn::LoadU(d, x + 2 * n));
    s3 = F::join(s3, hn::LoadU(d, x + 3 * n));
  }
  T* to = out + column;
  hn::StoreU(F::join(hn::LoadU(d, to), s0), d, to);
  hn::StoreU(F::join(hn::LoadU(d, to + n), s1), d, to + n);
  hn::StoreU(F::join(hn::LoadU(d, to + 2 * n), s2), d, to + 2 * n);
  hn::StoreU(F::join(hn::LoadU(d, to + 3 * n), s3), d, to + 3 * n);
}

template <class F, class T>
void fold_columns(const Rows<T>& at, T* out) {
  const hn::ScalableTag<T> d;
  for (int64_t row = 0; row < at.rows; row += kRows) {
    const Rows<T> block{at.x + row * at.stride, std::min(kRows, at.rows - row), at.stride,
                        at.columns};
    int64_t column = 0;
    for (; column + 4 * lanes(d) <= at.columns; column += 4 * lanes(d)) {
      fold_wide_columns<F>(d, block, column, out);
    }
    for_vectors<T>(at.columns - column, [&](auto narrow, int64_t i) HWY_ATTR {
      fold_narrow_columns<F>(narrow, block, column + i, out);
    });
  }
}

template <class F, class T>
Fold<T> fold_of() {
  return {F::template start<T>(), join_two<F, T>, fold_run<F, T>, fold_columns<F, T>};
}

template <class T>
Fold<T> select(FoldKind kind) {
  switch (kind) {
    case FoldKind::sum:
      return fold_of<Add, T>();
    case FoldKind::max:
      return fold_of<Max, T>();
    case FoldKind::min:
      return fold_of<Min, T>();
    case FoldKind::prod:
      return fold_of<Mul, T>();
  }
  return {};
}

Fold<float> fold_float32(FoldKind kind) { return select<float>(kind); }
Fold<double> fold_float64(FoldKind kind) { return select<double>(kind); }

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels::cpu {
namespace {

HWY_EXPORT(fold_float32);
HWY_EXPORT(fold_float64);

}  // namespace

Fold<float> best_fold(FoldKind kind, float) { return HWY_DYNAMIC_DISPATCH(fold_float32)(kind); }
Fold<double> best_fold(FoldKind kind, double) { return HWY_DYNAMIC_DISPATCH(fold_float64)(kind); }

}  // namespace tandem::kernels::cpu
#endif
