// A line along the axis either lies side by side, or many of them do, and a vector holds one
// element of each.
//
// This file is compiled once per instruction set; the best one is chosen when a kernel is prepared.
#include <cmath>
#include <cstdint>
#include <limits>

#include "op/registry.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/loss/softmax.cpp"
#include <hwy/foreach_target.h>
// These come after foreach_target.h, which sets what they expand to.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "kernels/cpu/loss/softmax_simd.h"

#ifndef TANDEM_SOFTMAX_ONCE
#define TANDEM_SOFTMAX_ONCE
namespace tandem::kernels::cpu {
namespace {

enum class SoftmaxKind { softmax, softmax_grad, log_softmax, log_softmax_grad };

/// `outer` blocks of `length` rows of `inner` elements; a line goes down the rows.
struct Lines {
  int64_t outer, length, inner;
};

/// `first` is x, or g of the gradients; `second` their y. `out` may be `first`.
template <class T>
using SoftmaxFn = void (*)(const Lines& lines, const T* first, const T* second, T* out);

}  // namespace
}  // namespace tandem::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

/// Calls step(i, number of elements there, vector's tag, load, store) along one line; the last
/// vector may be a part.
template <class T, class Step>
HWY_INLINE void along(int64_t count, const Step& step) {
  const hn::ScalableTag<T> d;
  const int64_t whole = count - count % lanes(d);
  for (int64_t i = 0; i < whole; i += lanes(d)) {
    step(
        i, [&](const T* p, T) HWY_ATTR { return hn::LoadU(d, p + i); },
        [&](auto v, T* p) HWY_ATTR { hn::StoreU(v, d, p + i); });
  }
  if (whole == count) return;
  const int64_t rest = count - whole;
  step(
      whole, [&](const T* p, T none) HWY_ATTR { return load_first(d, p + whole, rest, none); },
      [&](auto v, T* p) HWY_ATTR { store_first(d, v, p + whole, rest); });
}

template <class T>
HWY_INLINE T sum_of_lanes(hn::Vec<hn::ScalableTag<T>> v) {
  const hn::ScalableTag<T> d;
  return hn::GetLane(hn::SumOfLanes(d, v));
}

template <class T>
constexpr T kNone = -std::numeric_limits<T>::infinity();

template <class T>
HWY_INLINE void softmax_line(const T* x, T* y, int64_t count) {
  const hn::ScalableTag<T> d;
  const auto max = hn::Set(d, max_of(d, x, count - count % lanes(d), count));
  auto sum = hn::Zero(d);
  along<T>(count, [&](int64_t, auto load, auto store) HWY_ATTR {
    // Beyond the end exp(-inf) adds nothing.
    const auto e = exp_of(d, hn::Sub(load(x, kNone<T>), max));
    sum = hn::Add(sum, e);
    store(e, y);
  });
  const auto factor = hn::Set(d, T(1) / sum_of_lanes<T>(sum));
  along<T>(count, [&](int64_t, auto load, auto store)
                      HWY_ATTR { store(hn::Mul(load(y, T(0)), factor), y); });
}

template <class T>
HWY_INLINE void log_softmax_line(const T* x, T* y, int64_t count) {
  const hn::ScalableTag<T> d;
  const T largest = max_of(d, x, count - count % lanes(d), count);
  const auto max = hn::Set(d, largest);
  auto sum = hn::Zero(d);
  along<T>(count, [&](int64_t, auto load, auto)
                      HWY_ATTR { sum = hn::Add(sum, exp_of(d, hn::Sub(load(x, kNone<T>), max))); });
  const auto log = hn::Set(d, std::log(sum_of_lanes<T>(sum)));
  along<T>(count, [&](int64_t, auto load, auto store)
                      HWY_ATTR { store(hn::Sub(hn::Sub(load(x, T(0)), max), log), y); });
}

template <class T>
HWY_INLINE void softmax_grad_line(const T* g, const T* y, T* out, int64_t count) {
  const hn::ScalableTag<T> d;
  auto sum = hn::Zero(d);
  along<T>(count, [&](int64_t, auto load, auto)
                      HWY_ATTR { sum = hn::MulAdd(load(g, T(0)), load(y, T(0)), sum); });
  const auto total = hn::Set(d, sum_of_lanes<T>(sum));
  along<T>(count, [&](int64_t, auto load, auto store) HWY_ATTR {
    store(hn::Mul(load(y, T(0)), hn::Sub(load(g, T(0)), total)), out);
  });
}

template <class T>
HWY_INLINE void log_softmax_grad_line(const T* g, const T* y, T* out, int64_t count) {
  const hn::ScalableTag<T> d;
  auto sum = hn::Zero(d);
  along<T>(count, [&](int64_t, auto load, auto) HWY_ATTR { sum = hn::Add(sum, load(g, T(0))); });
  const auto total = hn::Set(d, sum_of_lanes<T>(sum));
  along<T>(count, [&](int64_t, auto load, auto store) HWY_ATTR {
    store(hn::NegMulAdd(exp_of(d, load(y, kNone<T>)), total, load(g, T(0))), out);
  });
}

template <SoftmaxKind kind, class T>
void lines_side_by_side(const Lines& lines, const T* first, const T* second, T* out) {
  for (int64_t line = 0; line < lines.outer; ++line) {
    const int64_t at = line * lines.length;
    if constexpr (kind == SoftmaxKind::softmax) {
      softmax_line(first + at, out + at, lines.length);
    } else if constexpr (kind == SoftmaxKind::log_softmax) {
      log_softmax_line(first + at, out + at, lines.length);
    } else if constexpr (kind == SoftmaxKind::softmax_grad) {
      softmax_grad_line(first + at, second + at, out + at, lines.length);
    } else {
      log_softmax_grad_line(first + at, second + at, out + at, lines.length);
    }
  }
}

/// One vector of lines, each element `step` after the one before.
template <SoftmaxKind kind, class D, class T>
HWY_INLINE void down(D d, const T* first, const T* second, T* out, int64_t length, int64_t step) {
  const auto load = [&](const T* p, int64_t i) HWY_ATTR { return hn::LoadU(d, p + i * step); };
  const auto store = [&](auto v, int64_t i) HWY_ATTR { hn::StoreU(v, d, out + i * step); };
  auto sum = hn::Zero(d);
  if constexpr (kind == SoftmaxKind::softmax || kind == SoftmaxKind::log_softmax) {
    auto max = hn::Set(d, kNone<T>);
    for (int64_t i = 0; i < length; ++i) max = hn::Max(max, load(first, i));
    for (int64_t i = 0; i < length; ++i) {
      const auto e = exp_of(d, hn::Sub(load(first, i), max));
      sum = hn::Add(sum, e);
      if constexpr (kind == SoftmaxKind::softmax) store(e, i);
    }
    if constexpr (kind == SoftmaxKind::softmax) {
      const auto factor = hn::Div(hn::Set(d, T(1)), sum);
      for (int64_t i = 0; i < length; ++i) store(hn::Mul(load(out, i), factor), i);
    } else {
      const auto log = hn::IfThenElse(hn::IsNaN(sum), sum, hn::Log(d, sum));
      for (int64_t i = 0; i < length; ++i) store(hn::Sub(hn::Sub(load(first, i), max), log), i);
    }
  } else if constexpr (kind == SoftmaxKind::softmax_grad) {
    for (int64_t i = 0; i < length; ++i) sum = hn::MulAdd(load(first, i), load(second, i), sum);
    for (int64_t i = 0; i < length; ++i) {
      store(hn::Mul(load(second, i), hn::Sub(load(first, i), sum)), i);
    }
  } else {
    for (int64_t i = 0; i < length; ++i) sum = hn::Add(sum, load(first, i));
    for (int64_t i = 0; i < length; ++i) {
      store(hn::NegMulAdd(exp_of(d, load(second, i)), sum, load(first, i)), i);
    }
  }
}

template <SoftmaxKind kind, class T>
void lines_below_each_other(const Lines& lines, const T* first, const T* second, T* out) {
  for (int64_t block = 0; block < lines.outer; ++block) {
    const int64_t at = block * lines.length * lines.inner;
    for_vectors<T>(lines.inner, [&](auto d, int64_t i) HWY_ATTR {
      // Without a second operand there is no address to move on from.
      down<kind>(d, first + at + i, second == nullptr ? nullptr : second + at + i, out + at + i,
                 lines.length, lines.inner);
    });
  }
}

template <class T>
SoftmaxFn<T> select(SoftmaxKind kind, bool side_by_side) {
  switch (kind) {
    case SoftmaxKind::softmax:
      return side_by_side ? lines_side_by_side<SoftmaxKind::softmax, T>
                          : lines_below_each_other<SoftmaxKind::softmax, T>;
    case SoftmaxKind::softmax_grad:
      return side_by_side ? lines_side_by_side<SoftmaxKind::softmax_grad, T>
                          : lines_below_each_other<SoftmaxKind::softmax_grad, T>;
    case SoftmaxKind::log_softmax:
      return side_by_side ? lines_side_by_side<SoftmaxKind::log_softmax, T>
                          : lines_below_each_other<SoftmaxKind::log_softmax, T>;
    case SoftmaxKind::log_softmax_grad:
      break;
  }
  return side_by_side ? lines_side_by_side<SoftmaxKind::log_softmax_grad, T>
                      : lines_below_each_other<SoftmaxKind::log_softmax_grad, T>;
}

SoftmaxFn<float> softmax_float32(SoftmaxKind kind, bool side_by_side) {
  return select<float>(kind, side_by_side);
}
SoftmaxFn<double> softmax_float64(SoftmaxKind kind, bool side_by_side) {
  return select<double>(kind, side_by_side);
}

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels::cpu {
namespace {

HWY_EXPORT(softmax_float32);
HWY_EXPORT(softmax_float64);

SoftmaxFn<float> best(SoftmaxKind kind, bool side_by_side, float) {
  return HWY_DYNAMIC_DISPATCH(softmax_float32)(kind, side_by_side);
}
SoftmaxFn<double> best(SoftmaxKind kind, bool side_by_side, double) {
  return HWY_DYNAMIC_DISPATCH(softmax_float64)(kind, side_by_side);
}

Lines lines_of(const op::Signature& s) {
  const Shape& shape = s.outputs[0].shape;
  const auto axis = static_cast<int>(s.attrs.get<int64_t>("axis"));
  Lines lines{1, shape[axis], 1};
  for (int i = 0; i < axis; ++i) lines.outer *= shape[i];
  for (int i = axis + 1; i < shape.rank(); ++i) lines.inner *= shape[i];
  return lines;
}

template <class T>
op::PrepareFn prepare(SoftmaxKind kind) {
  return [kind](const op::Signature& s, int) {
    const Lines lines = lines_of(s);
    return op::executable(
        [lines, run = best(kind, lines.inner == 1, T())](const op::Launch& launch) {
          if (lines.length * lines.inner == 0) return;
          const auto [begin, end] = op::part_of(lines.outer, launch);
          const int64_t at = begin * lines.length * lines.inner;
          run({end - begin, lines.length, lines.inner}, launch.in<T>(0) + at,
              launch.inputs > 1 ? launch.in<T>(1) + at : nullptr, launch.out<T>(0) + at);
        });
  };
}

template <class T>
void register_for(op::BackendKernels& kernels) {
  const auto add = [&](const char* name, SoftmaxKind kind) {
    kernels.add(name, {dtype_of<T>}, prepare<T>(kind));
  };
  add("softmax", SoftmaxKind::softmax);
  add("softmax_grad", SoftmaxKind::softmax_grad);
  add("log_softmax", SoftmaxKind::log_softmax);
  add("log_softmax_grad", SoftmaxKind::log_softmax_grad);
}

}  // namespace

void register_softmax(op::BackendKernels& kernels) {
  register_for<float>(kernels);
  register_for<double>(kernels);
}

}  // namespace tandem::kernels::cpu
#endif
