// This file is compiled once per instruction set; the best one is chosen when a kernel is prepared.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "op/registry.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/loss.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which sets what they expand to.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "kernels/cpu/simd.h"

#ifndef TANDEM_LOSS_ONCE
#define TANDEM_LOSS_ONCE
namespace tandem::kernels::cpu {
namespace {

template <class T>
struct CrossEntropyRows {
  const T* logits;
  const T* labels;
  T* loss;
  T* backprop;
  int64_t rows;
  int64_t classes;
};

template <class T>
using CrossEntropyFn = void (*)(const CrossEntropyRows<T>& rows);

}  // namespace
}  // namespace tandem::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

template <class D, class T>
HWY_INLINE T max_of(D d, const T* x, int64_t whole, int64_t count) {
  auto max = hn::Set(d, -std::numeric_limits<T>::infinity());
  for (int64_t i = 0; i < whole; i += lanes(d)) max = hn::Max(max, hn::LoadU(d, x + i));
  if (whole < count) {
    const T none = -std::numeric_limits<T>::infinity();
    max = hn::Max(max, load_first(d, x + whole, count - whole, none));
  }
  return hn::GetLane(hn::MaxOfLanes(d, max));
}

/// Highway's exponential takes NaN to 0, which would hide it.
template <class D, class V>
HWY_INLINE V exp_of(D d, V x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, x));
}

/// One row, with x = logits - max(logits), which keeps exp from overflow:
///   loss = sum of labels (log(sum of exp(x)) - x)
///   backprop = exp(x) / (sum of exp(x)) - labels
/// All terms of the loss have one sign, so nothing cancels where log(sum) and x are added up apart.
template <class T>
HWY_INLINE void cross_entropy_row(const T* logits, const T* labels, T* loss, T* backprop,
                                  int64_t classes) {
  const hn::ScalableTag<T> d;
  const int64_t whole = classes - classes % lanes(d);
  const int64_t rest = classes - whole;
  const auto max = hn::Set(d, max_of(d, logits, whole, classes));

  auto sum = hn::Zero(d);
  auto label_sum = hn::Zero(d);
  auto picked = hn::Zero(d);
  const auto add = [&](auto x, auto label) HWY_ATTR {
    label_sum = hn::Add(label_sum, label);
    picked = hn::MulAdd(label, x, picked);
  };
  for (int64_t i = 0; i < whole; i += lanes(d)) {
    const auto x = hn::Sub(hn::LoadU(d, logits + i), max);
    const auto e = exp_of(d, x);
    sum = hn::Add(sum, e);
    add(x, hn::LoadU(d, labels + i));
    hn::StoreU(e, d, backprop + i);
  }
  auto last = hn::Zero(d);
  auto last_labels = hn::Zero(d);
  if (rest > 0) {
    const auto inside = hn::FirstN(d, static_cast<size_t>(rest));
    const auto x =
        hn::IfThenElseZero(inside, hn::Sub(load_first(d, logits + whole, rest, T(0)), max));
    last = hn::IfThenElseZero(inside, exp_of(d, x));
    last_labels = load_first(d, labels + whole, rest, T(0));
    sum = hn::Add(sum, last);
    add(x, last_labels);
  }

  const T total = hn::GetLane(hn::SumOfLanes(d, sum));
  const auto divisor = hn::Set(d, total);
  for (int64_t i = 0; i < whole; i += lanes(d)) {
    const auto softmax = hn::Div(hn::LoadU(d, backprop + i), divisor);
    hn::StoreU(hn::Sub(softmax, hn::LoadU(d, labels + i)), d, backprop + i);
  }
  if (rest > 0)
    store_first(d, hn::Sub(hn::Div(last, divisor), last_labels), backprop + whole, rest);
  *loss = std::log(total) * hn::GetLane(hn::SumOfLanes(d, label_sum)) -
          hn::GetLane(hn::SumOfLanes(d, picked));
}

template <class T>
void cross_entropy(const CrossEntropyRows<T>& at) {
  for (int64_t row = 0; row < at.rows; ++row) {
    const int64_t first = row * at.classes;
    cross_entropy_row(at.logits + first, at.labels + first, at.loss + row, at.backprop + first,
                      at.classes);
  }
}

CrossEntropyFn<float> cross_entropy_float32() { return cross_entropy<float>; }
CrossEntropyFn<double> cross_entropy_float64() { return cross_entropy<double>; }

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels::cpu {
namespace {

HWY_EXPORT(cross_entropy_float32);
HWY_EXPORT(cross_entropy_float64);

CrossEntropyFn<float> best(float) { return HWY_DYNAMIC_DISPATCH(cross_entropy_float32)(); }
CrossEntropyFn<double> best(double) { return HWY_DYNAMIC_DISPATCH(cross_entropy_float64)(); }

template <class T>
op::ExecutablePtr prepare_cross_entropy(const op::Signature& s, int) {
  const Shape& shape = s.inputs[0].shape;
  return op::executable(
      [run = best(T()), rows = shape[0], classes = shape[1]](const op::Launch& launch) {
        const auto [begin, end] = op::part_of(rows, launch);
        const int64_t first = begin * classes;
        if (classes == 0) return std::fill(launch.out<T>(0) + begin, launch.out<T>(0) + end, T(0));
        run({launch.in<T>(0) + first, launch.in<T>(1) + first, launch.out<T>(0) + begin,
             launch.out<T>(1) + first, end - begin, classes});
      });
}

}  // namespace

void register_loss(op::Registry& registry) {
  registry.add_kernel("softmax_cross_entropy", "cpu", {DType::float32},
                      prepare_cross_entropy<float>);
  registry.add_kernel("softmax_cross_entropy", "cpu", {DType::float64},
                      prepare_cross_entropy<double>);
}

}  // namespace tandem::kernels::cpu
#endif
