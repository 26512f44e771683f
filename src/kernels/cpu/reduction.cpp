// The result is computed one element at a time where the innermost axis is summed over, and one run
// of elements at a time, as sums of rows, where it is kept. Either way memory is read as it lies.
//
// This file is compiled once per instruction set; the best one is chosen when a kernel is prepared.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/cpu/factor.h"
#include "kernels/cpu/nest.h"
#include "kernels/cpu/part.h"
#include "op/registry.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/reduction.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which sets what they expand to.
#include <hwy/highway.h>

#include "kernels/cpu/simd.h"

#ifndef TANDEM_REDUCTION_ONCE
#define TANDEM_REDUCTION_ONCE
namespace tandem::kernels::cpu {
namespace {

// Longer sums are made of partial ones, so that the error does not grow with the length.
constexpr int64_t kRun = 2048;
constexpr int64_t kRows = 128;

/// Rows of a matrix that lie `stride` elements apart.
template <class T>
struct Rows {
  const T* x;
  int64_t rows;
  int64_t stride;
  int64_t columns;
};

template <class T>
struct Sums {
  /// The sum of `count` elements side by side.
  T (*run)(const T* x, int64_t count);
  /// Adds to out[c] the sum of column c.
  void (*columns)(const Rows<T>& rows, T* out);
};

}  // namespace
}  // namespace tandem::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

template <class T>
T short_sum(const T* x, int64_t count) {
  const hn::ScalableTag<T> d;
  const int64_t n = lanes(d);
  auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 4 * n <= count; i += 4 * n) {
    s0 = hn::Add(s0, hn::LoadU(d, x + i));
    s1 = hn::Add(s1, hn::LoadU(d, x + i + n));
    s2 = hn::Add(s2, hn::LoadU(d, x + i + 2 * n));
    s3 = hn::Add(s3, hn::LoadU(d, x + i + 3 * n));
  }
  for (; i + n <= count; i += n) s0 = hn::Add(s0, hn::LoadU(d, x + i));
  T sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  for (; i < count; ++i) sum += x[i];
  return sum;
}

template <class T>
T run_sum(const T* x, int64_t count) {
  if (count <= kRun) return short_sum(x, count);
  const int64_t half = (count / 2 + kRun - 1) / kRun * kRun;
  return run_sum(x, half) + run_sum(x + half, count - half);
}

/// One vector of columns; four sums, so that additions need not wait for each other.
template <class D, class T>
HWY_INLINE void narrow_column_sums(D d, const Rows<T>& at, int64_t column, T* out) {
  auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
  const T* x = at.x + column;
  int64_t row = 0;
  for (; row + 4 <= at.rows; row += 4, x += 4 * at.stride) {
    s0 = hn::Add(s0, hn::LoadU(d, x));
    s1 = hn::Add(s1, hn::LoadU(d, x + at.stride));
    s2 = hn::Add(s2, hn::LoadU(d, x + 2 * at.stride));
    s3 = hn::Add(s3, hn::LoadU(d, x + 3 * at.stride));
  }
  for (; row < at.rows; ++row, x += at.stride) s0 = hn::Add(s0, hn::LoadU(d, x));
  const auto sum = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
  hn::StoreU(hn::Add(hn::LoadU(d, out + column), sum), d, out + column);
}

/// Four vectors of columns.
template <class D, class T>
HWY_INLINE void wide_column_sums(D d, const Rows<T>& at, int64_t column, T* out) {
  const int64_t n = lanes(d);
  auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
  const T* x = at.x + column;
  for (int64_t row = 0; row < at.rows; ++row, x += at.stride) {
    s0 = hn::Add(s0, hn::LoadU(d, x));
    s1 = hn::Add(s1, hn::LoadU(d, x + n));
    s2 = hn::Add(s2, hn::LoadU(d, x + 2 * n));
    s3 = hn::Add(s3, hn::LoadU(d, x + 3 * n));
  }
  T* to = out + column;
  hn::StoreU(hn::Add(hn::LoadU(d, to), s0), d, to);
  hn::StoreU(hn::Add(hn::LoadU(d, to + n), s1), d, to + n);
  hn::StoreU(hn::Add(hn::LoadU(d, to + 2 * n), s2), d, to + 2 * n);
  hn::StoreU(hn::Add(hn::LoadU(d, to + 3 * n), s3), d, to + 3 * n);
}

template <class T>
void column_sums(const Rows<T>& at, T* out) {
  const hn::ScalableTag<T> d;
  for (int64_t row = 0; row < at.rows; row += kRows) {
    const Rows<T> block{at.x + row * at.stride, std::min(kRows, at.rows - row), at.stride,
                        at.columns};
    int64_t column = 0;
    for (; column + 4 * lanes(d) <= at.columns; column += 4 * lanes(d)) {
      wide_column_sums(d, block, column, out);
    }
    for_vectors<T>(at.columns - column, [&](auto narrow, int64_t i) HWY_ATTR {
      narrow_column_sums(narrow, block, column + i, out);
    });
  }
}

Sums<float> sums_float32() { return {run_sum<float>, column_sums<float>}; }
Sums<double> sums_float64() { return {run_sum<double>, column_sums<double>}; }

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels::cpu {
namespace {

HWY_EXPORT(sums_float32);
HWY_EXPORT(sums_float64);

Sums<float> best_sums(float) { return HWY_DYNAMIC_DISPATCH(sums_float32)(); }
Sums<double> best_sums(double) { return HWY_DYNAMIC_DISPATCH(sums_float64)(); }

/// The input's axes, sorted into those that stay and those that are summed over.
struct ReduceLoops {
  Nest<1> kept;
  Nest<1> summed;
  bool sums_innermost = false;
  Axis<1> inner_kept;    // Taken out of `kept` unless the innermost axis is summed.
  Axis<1> inner_summed;  // Taken out of `summed`.
};

ReduceLoops loops_of(const Shape& shape, const std::vector<int64_t>& axes) {
  ReduceLoops loops;
  int64_t stride = shape.count();
  for (int axis = 0; axis < shape.rank(); ++axis) {
    stride /= shape[axis];
    const bool is_summed = std::ranges::find(axes, axis) != axes.end();
    (is_summed ? loops.summed : loops.kept).add({shape[axis], {stride}});
  }
  loops.inner_summed = loops.summed.take_inner();
  loops.sums_innermost = loops.inner_summed.size > 1 && loops.inner_summed.strides[0] == 1;
  if (!loops.sums_innermost) loops.inner_kept = loops.kept.take_inner();
  return loops;
}

template <class T>
void reduce_innermost(const ReduceLoops& loops, const Sums<T>& sums, const T* x, T* out,
                      int64_t begin, int64_t end) {
  const int64_t blocks = loops.summed.count();
  Position<1> kept(loops.kept, begin);
  for (int64_t i = begin; i < end; ++i, kept.next()) {
    Position<1> summed(loops.summed, 0);
    T sum = 0;
    for (int64_t block = 0; block < blocks; ++block, summed.next()) {
      sum += sums.run(x + kept.offset() + summed.offset(), loops.inner_summed.size);
    }
    out[i] = sum;
  }
}

template <class T>
void reduce_outer(const ReduceLoops& loops, const Sums<T>& sums, const T* x, T* out, int64_t begin,
                  int64_t end) {
  std::fill(out + begin, out + end, T(0));
  const int64_t blocks = loops.summed.count();
  for_each_run(loops.kept, loops.inner_kept.size, begin, end,
               [&](const Position<1>& kept, int64_t first, int64_t count, int64_t index) {
                 Position<1> summed(loops.summed, 0);
                 for (int64_t block = 0; block < blocks; ++block, summed.next()) {
                   sums.columns({x + kept.offset() + first + summed.offset(),
                                 loops.inner_summed.size, loops.inner_summed.strides[0], count},
                                out + index);
                 }
               });
}

template <class T>
op::ExecutablePtr prepare_reduce(const op::Signature& s, int) {
  const Shape& shape = s.inputs[0].shape;
  const auto& axes = s.attrs.get<std::vector<int64_t>>("axes");
  int64_t meeting = 1;
  for (int64_t axis : axes) meeting *= shape[static_cast<int>(axis)];
  const bool empty = shape.count() == 0;  // Sums of nothing are 0.
  return op::executable([loops = empty ? ReduceLoops() : loops_of(shape, axes), empty,
                         sums = best_sums(T()), factor = Factor(s.attrs, meeting),
                         split = RowSplit(s.outputs[0].shape)](const op::Launch& launch) {
    const auto [begin, end] = split.part(launch);
    if (begin == end) return;
    T* out = launch.out<T>(0);
    if (empty) {
      std::fill(out + begin, out + end, T(0));
    } else {
      (loops.sums_innermost ? reduce_innermost<T> : reduce_outer<T>)(loops, sums, launch.in<T>(0),
                                                                     out, begin, end);
    }
    if (factor.is_one()) return;
    const auto scale = static_cast<T>(factor.value(launch));
    for (int64_t i = begin; i < end; ++i) out[i] *= scale;
  });
}

}  // namespace

void register_reduction(op::Registry& registry) {
  registry.add_kernel("reduce", "cpu", {DType::float32}, prepare_reduce<float>);
  registry.add_kernel("reduce", "cpu", {DType::float64}, prepare_reduce<double>);
}

}  // namespace tandem::kernels::cpu
#endif
