// The cross entropies of softmax and sigmoid. One pass computes a row's loss and its gradient, of
// which the op's own gradient is then a product.
//
// This file is compiled once per instruction set; the best one is chosen when a kernel is prepared.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/part.h"
#include "op/registry.h"
#include "tandem/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/loss/loss.cpp"
#include <hwy/foreach_target.h>
// These come after foreach_target.h, which sets what they expand to.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "kernels/cpu/loss/softmax_simd.h"

#ifndef TANDEM_LOSS_ONCE
#define TANDEM_LOSS_ONCE
namespace tandem::kernels::cpu {
namespace {

/// Rows of `classes` elements, and one loss for each.
template <class T>
struct LossRows {
  const T* logits;
  T* loss;
  T* backprop;
  int64_t rows;
  int64_t classes;
  bool labels_sum_to_one = false;  // Taken to, for the gradient.
};

template <class T>
struct LossFns {
  void (*softmax)(const LossRows<T>& rows, const T* labels);
  /// Computes for one row log(sum of exp(logits - max)), and softmax. Returns max, the largest
  /// logit.
  T (*log_sum)(const T* logits, int64_t classes, T* log, T* softmax);
  void (*sigmoid)(const T* logits, const T* labels, T* loss, T* backprop, int64_t count);
};

// Logarithms are taken for so many rows at once.
constexpr int64_t kRowsAtOnce = 16;

}  // namespace
}  // namespace tandem::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

/// What is left to do for some rows once their sums are known. With x = logits - max(logits), which
/// keeps exp from overflow:
///   loss = sum of labels (log(sum of exp(x)) - x)
/// All terms have one sign, so nothing cancels where log(sum) and x are added up apart.
template <class T>
struct Pending {
  HWY_ALIGN T sum[kRowsAtOnce];        // The sum of exp(x).
  HWY_ALIGN T label_sum[kRowsAtOnce];  // The sum of labels.
  HWY_ALIGN T picked[kRowsAtOnce];     // The sum of labels x.

  HWY_INLINE void finish(T* loss, int64_t rows) const {
    for_vectors<T>(rows, [&](auto d, int64_t i) HWY_ATTR {
      const auto s = hn::LoadU(d, sum + i);
      const auto log = hn::IfThenElse(hn::IsNaN(s), s, hn::Log(d, s));
      hn::StoreU(hn::MulSub(log, hn::LoadU(d, label_sum + i), hn::LoadU(d, picked + i)), d,
                 loss + i);
    });
  }
};

/// One row, whose sums become pending number `at`:
///   backprop = (sum of labels) exp(x) / (sum of exp(x)) - labels
/// where that sum of labels is 1 if they are taken to sum to it.
template <class T>
HWY_INLINE void cross_entropy_row(const LossRows<T>& rows, int64_t first, const T* labels,
                                  Pending<T>& pending, int64_t at) {
  const hn::ScalableTag<T> d;
  const T* logits = rows.logits + first;
  T* backprop = rows.backprop + first;
  const int64_t classes = rows.classes;
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

  pending.sum[at] = hn::GetLane(hn::SumOfLanes(d, sum));
  pending.label_sum[at] = hn::GetLane(hn::SumOfLanes(d, label_sum));
  pending.picked[at] = hn::GetLane(hn::SumOfLanes(d, picked));
  const T labelled = rows.labels_sum_to_one ? T(1) : pending.label_sum[at];
  const auto factor = hn::Set(d, labelled / pending.sum[at]);
  for (int64_t i = 0; i < whole; i += lanes(d)) {
    hn::StoreU(hn::MulSub(hn::LoadU(d, backprop + i), factor, hn::LoadU(d, labels + i)), d,
               backprop + i);
  }
  if (rest > 0) store_first(d, hn::MulSub(last, factor, last_labels), backprop + whole, rest);
}

/// The same for few classes, in `kVectors` vectors. Reads and writes whole vectors, beyond the end
/// of the row: what it writes there the next rows overwrite.
template <int kVectors, class T>
HWY_INLINE void narrow_row(const LossRows<T>& rows, int64_t first, const T* labels,
                           Pending<T>& pending, int64_t at) {
  const hn::ScalableTag<T> d;
  const T* logits = rows.logits + first;
  T* backprop = rows.backprop + first;
  const int64_t classes = rows.classes;
  constexpr int kLast = kVectors - 1;
  const auto inside = hn::FirstN(d, static_cast<size_t>(classes - kLast * lanes(d)));
  hn::Vec<decltype(d)> x[kVectors], y[kVectors];
  for (int i = 0; i < kVectors; ++i) {
    x[i] = hn::LoadU(d, logits + i * lanes(d));
    y[i] = hn::LoadU(d, labels + i * lanes(d));
  }
  const auto none = hn::Set(d, -std::numeric_limits<T>::infinity());
  auto max = hn::IfThenElse(inside, x[kLast], none);
  for (int i = 0; i < kLast; ++i) max = hn::Max(max, x[i]);
  max = hn::MaxOfLanes(d, max);
  y[kLast] = hn::IfThenElseZero(inside, y[kLast]);

  auto sum = hn::Zero(d);
  auto label_sum = hn::Zero(d);
  auto picked = hn::Zero(d);
  hn::Vec<decltype(d)> e[kVectors];
  for (int i = 0; i < kVectors; ++i) {
    x[i] = hn::Sub(x[i], max);
    if (i == kLast) x[i] = hn::IfThenElseZero(inside, x[i]);
    e[i] = exp_of(d, x[i]);
    if (i == kLast) e[i] = hn::IfThenElseZero(inside, e[i]);
    sum = hn::Add(sum, e[i]);
    label_sum = hn::Add(label_sum, y[i]);
    picked = hn::MulAdd(y[i], x[i], picked);
  }
  sum = hn::SumOfLanes(d, sum);
  label_sum = hn::SumOfLanes(d, label_sum);
  pending.sum[at] = hn::GetLane(sum);
  pending.label_sum[at] = hn::GetLane(label_sum);
  pending.picked[at] = hn::GetLane(hn::SumOfLanes(d, picked));
  const auto factor = hn::Div(rows.labels_sum_to_one ? hn::Set(d, T(1)) : label_sum, sum);
  for (int i = 0; i < kVectors; ++i) {
    hn::StoreU(hn::MulSub(e[i], factor, y[i]), d, backprop + i * lanes(d));
  }
}

/// `kVectors` hold a row; 0: there are too many classes for that.
template <int kVectors, class T>
void cross_entropy_rows(const LossRows<T>& at, const T* labels) {
  const hn::ScalableTag<T> d;
  // Rows that have a whole vector's worth of elements behind their end.
  const int64_t beyond = kVectors * lanes(d) - at.classes;
  const int64_t safe = kVectors == 0 ? 0 : at.rows - (beyond + at.classes - 1) / at.classes;
  Pending<T> pending;
  for (int64_t block = 0; block < at.rows; block += kRowsAtOnce) {
    const int64_t rows = std::min(kRowsAtOnce, at.rows - block);
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t first = (block + i) * at.classes;
      if (kVectors > 0 && block + i < safe) {
        narrow_row<std::max(kVectors, 1)>(at, first, labels + first, pending, i);
      } else {
        cross_entropy_row(at, first, labels + first, pending, i);
      }
    }
    pending.finish(at.loss + block, rows);
  }
}

template <class T>
void softmax_cross_entropy(const LossRows<T>& at, const T* labels) {
  const int64_t n = lanes(hn::ScalableTag<T>());
  if (at.classes <= n) return cross_entropy_rows<1>(at, labels);
  if (at.classes <= 2 * n) return cross_entropy_rows<2>(at, labels);
  cross_entropy_rows<0>(at, labels);
}

template <class T>
T log_sum(const T* logits, int64_t classes, T* log, T* softmax) {
  const hn::ScalableTag<T> d;
  const int64_t whole = classes - classes % lanes(d);
  const int64_t rest = classes - whole;
  const T largest = max_of(d, logits, whole, classes);
  const auto max = hn::Set(d, largest);
  auto sum = hn::Zero(d);
  for (int64_t i = 0; i < whole; i += lanes(d)) {
    const auto e = exp_of(d, hn::Sub(hn::LoadU(d, logits + i), max));
    sum = hn::Add(sum, e);
    hn::StoreU(e, d, softmax + i);
  }
  auto last = hn::Zero(d);
  if (rest > 0) {
    // Beyond the end exp(-inf) adds nothing.
    const T none = -std::numeric_limits<T>::infinity();
    last = exp_of(d, hn::Sub(load_first(d, logits + whole, rest, none), max));
    sum = hn::Add(sum, last);
  }
  const T total = hn::GetLane(hn::SumOfLanes(d, sum));
  const auto factor = hn::Set(d, T(1) / total);
  for (int64_t i = 0; i < whole; i += lanes(d)) {
    hn::StoreU(hn::Mul(hn::LoadU(d, softmax + i), factor), d, softmax + i);
  }
  if (rest > 0) store_first(d, hn::Mul(last, factor), softmax + whole, rest);
  *log = std::log(total);
  return largest;
}

/// With e = exp(-|x|), which cannot overflow:
///   loss = max(x, 0) - x label + log(1 + e)
///   backprop = (x < 0 ? e : 1) / (1 + e) - label
template <class T>
void sigmoid_cross_entropy(const T* logits, const T* labels, T* loss, T* backprop, int64_t count) {
  for_vectors<T>(count, [&](auto d, int64_t i) HWY_ATTR {
    const auto x = hn::LoadU(d, logits + i);
    const auto label = hn::LoadU(d, labels + i);
    const auto one = hn::Set(d, T(1));
    const auto e = exp_of(d, hn::Neg(hn::Abs(x)));
    const auto positive = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Zero(d), x);
    const auto log = hn::IfThenElse(hn::IsNaN(e), e, hn::Log1p(d, e));
    hn::StoreU(hn::Add(hn::NegMulAdd(x, label, positive), log), d, loss + i);
    const auto sigmoid = hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one), hn::Add(one, e));
    hn::StoreU(hn::Sub(sigmoid, label), d, backprop + i);
  });
}

template <class T>
LossFns<T> loss_fns() {
  return {softmax_cross_entropy<T>, log_sum<T>, sigmoid_cross_entropy<T>};
}

LossFns<float> loss_float32() { return loss_fns<float>(); }
LossFns<double> loss_float64() { return loss_fns<double>(); }

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels::cpu {
namespace {

HWY_EXPORT(loss_float32);
HWY_EXPORT(loss_float64);

LossFns<float> best_loss(float) { return HWY_DYNAMIC_DISPATCH(loss_float32)(); }
LossFns<double> best_loss(double) { return HWY_DYNAMIC_DISPATCH(loss_float64)(); }

using op::Launch;
using op::Signature;

/// The thread's rows.
template <class T>
LossRows<T> rows_of(const Launch& launch, const Shape& shape) {
  const auto [begin, end] = op::part_of(shape[0], launch);
  const int64_t first = begin * shape[1];
  return {launch.in<T>(0) + first, launch.out<T>(0) + begin, launch.out<T>(1) + first, end - begin,
          shape[1]};
}

template <class T>
op::ExecutablePtr prepare_softmax(const Signature& s, int) {
  return op::executable(
      [run = best_loss(T()).softmax, shape = s.inputs[0].shape,
       labels_sum_to_one = s.attrs.get<bool>("labels_sum_to_one")](const Launch& launch) {
        LossRows<T> rows = rows_of<T>(launch, shape);
        rows.labels_sum_to_one = labels_sum_to_one;
        if (rows.rows == 0) return;
        if (shape[1] == 0) return std::fill(rows.loss, rows.loss + rows.rows, T(0));
        run(rows, launch.in<T>(1) + (rows.logits - launch.in<T>(0)));
      });
}

/// loss = log(sum of exp(logits)) - logits[label], backprop = softmax(logits), less 1 at the label.
template <class T, class Label>
op::ExecutablePtr prepare_sparse_of(const Signature& s) {
  return op::executable(
      [log_sum = best_loss(T()).log_sum, shape = s.inputs[0].shape](const Launch& launch) {
        const auto [begin, end] = op::part_of(shape[0], launch);
        const int64_t classes = shape[1];
        for (int64_t row = begin; row < end; ++row) {
          const auto label = static_cast<int64_t>(launch.in<Label>(1)[row]);
          if (label < 0 || label >= classes) {
            throw InvalidArgument(fmt::format(
                "sparse_softmax_cross_entropy_with_logits: label {} of row {} is not within "
                "the {} classes",
                label, row, classes));
          }
          const T* logits = launch.in<T>(0) + row * classes;
          T* backprop = launch.out<T>(1) + row * classes;
          T log = 0;
          const T largest = log_sum(logits, classes, &log, backprop);
          launch.out<T>(0)[row] = (largest - logits[label]) + log;
          backprop[label] -= T(1);
        }
      });
}

template <class T>
op::ExecutablePtr prepare_sparse(const Signature& s, int) {
  return s.inputs[1].dtype == DType::int32 ? prepare_sparse_of<T, int32_t>(s)
                                           : prepare_sparse_of<T, int64_t>(s);
}

template <class T>
op::ExecutablePtr prepare_sigmoid(const Signature& s, int) {
  return op::executable(
      [run = best_loss(T()).sigmoid, split = RowSplit(s.inputs[0].shape)](const Launch& launch) {
        const auto [begin, end] = split.part(launch);
        run(launch.in<T>(0) + begin, launch.in<T>(1) + begin, launch.out<T>(0) + begin,
            launch.out<T>(1) + begin, end - begin);
      });
}

template <class T>
void register_for(op::BackendKernels& kernels) {
  kernels.add("softmax_cross_entropy", {dtype_of<T>}, prepare_softmax<T>);
  kernels.add("sparse_softmax_cross_entropy", {dtype_of<T>}, prepare_sparse<T>);
  kernels.add("sigmoid_cross_entropy", {dtype_of<T>}, prepare_sigmoid<T>);
}

}  // namespace

void register_loss(op::BackendKernels& kernels) {
  register_for<float>(kernels);
  register_for<double>(kernels);
}

}  // namespace tandem::kernels::cpu
#endif
