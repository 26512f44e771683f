// The result is computed one element at a time where the innermost axis is reduced, and one run of
// elements at a time, as folds of rows, where it is kept. Either way memory is read as it lies.
//
// Threads share the result's leading axis. Where that is too little for them, and the input's
// leading axis is reduced, they share that one instead: each reduces its part of the input into its
// workspace, they meet, and join the parts in a fixed order.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/cpu/factor.h"
#include "kernels/cpu/reduction/fold.h"
#include "kernels/part.h"
#include "kernels/reduce_nests.h"
#include "op/registry.h"

namespace tandem::kernels::cpu {
namespace {

using Axes = std::vector<int64_t>;

// Smaller inputs are reduced in less time than threads take to meet.
constexpr int64_t kWorthMeeting = 64 << 10;
// So many elements of each row, read side by side, keep a thread busy.
constexpr int64_t kColumnsPerThread = 512;
constexpr int64_t kRowsPerThread = 8;

/// The input's axes, sorted into those that stay and those that are reduced.
struct ReduceLoops {
  Nest<1> kept;
  Nest<1> reduced;
  bool reduces_innermost = false;
  Axis<1> inner_kept;     // It is taken out of `kept` unless the innermost axis is reduced.
  Axis<1> inner_reduced;  // It is taken out of `reduced`.
};

ReduceLoops loops_of(const Shape& shape, const Axes& axes) {
  const ReduceNests nests = reduce_nests(shape, axes);
  ReduceLoops loops;
  loops.kept = nests.kept;
  loops.reduced = nests.reduced;
  loops.reduces_innermost = nests.reduces_innermost();
  loops.inner_reduced = loops.reduced.take_inner();
  if (!loops.reduces_innermost) loops.inner_kept = loops.kept.take_inner();
  return loops;
}

template <class T>
void reduce_innermost(const ReduceLoops& loops, const Fold<T>& fold, const T* x, T* out,
                      int64_t begin, int64_t end) {
  const int64_t blocks = loops.reduced.count();
  Position<1> kept(loops.kept, begin);
  for (int64_t i = begin; i < end; ++i, kept.next()) {
    Position<1> reduced(loops.reduced, 0);
    T result = fold.start;
    for (int64_t block = 0; block < blocks; ++block, reduced.next()) {
      result = fold.join(result,
                         fold.run(x + kept.offset() + reduced.offset(), loops.inner_reduced.size));
    }
    out[i] = result;
  }
}

template <class T>
void reduce_outer(const ReduceLoops& loops, const Fold<T>& fold, const T* x, T* out, int64_t begin,
                  int64_t end) {
  std::fill(out + begin, out + end, fold.start);
  const int64_t blocks = loops.reduced.count();
  for_each_run(loops.kept, loops.inner_kept.size, begin, end,
               [&](const Position<1>& kept, int64_t first, int64_t count, int64_t index) {
                 Position<1> reduced(loops.reduced, 0);
                 for (int64_t block = 0; block < blocks; ++block, reduced.next()) {
                   fold.columns({x + kept.offset() + first + reduced.offset(),
                                 loops.inner_reduced.size, loops.inner_reduced.strides[0], count},
                                out + index);
                 }
               });
}

/// Elements [begin, end) of the result.
template <class T>
void reduce(const ReduceLoops& loops, const Fold<T>& fold, const T* x, T* out, int64_t begin,
            int64_t end) {
  (loops.reduces_innermost ? reduce_innermost<T> : reduce_outer<T>)(loops, fold, x, out, begin,
                                                                    end);
}

/// A reduction, with all reduced axes that lead made one.
struct Merged {
  Shape shape;
  Axes axes;
};

Merged merged(const Shape& shape, const Axes& axes) {
  if (!contains(axes, 0)) return {shape, axes};
  int prefix = 0;
  int64_t leading = 1;
  while (prefix < shape.rank() && contains(axes, prefix)) leading *= shape[prefix++];
  std::vector<int64_t> sizes{leading};
  Axes result{0};
  for (int axis = prefix; axis < shape.rank(); ++axis) {
    if (contains(axes, axis)) result.push_back(static_cast<int64_t>(sizes.size()));
    sizes.push_back(shape[axis]);
  }
  return {Shape(sizes), result};
}

template <class T>
class Reduce final : public op::Executable {
 public:
  Reduce(const op::Signature& s, int parts, const Fold<T>& fold, const Factor& factor)
      : fold_(fold),
        factor_(factor),
        split_(s.outputs[0].shape),
        count_(s.outputs[0].shape.count()),
        empty_(s.inputs[0].shape.count() == 0),
        whole_(merged(s.inputs[0].shape, s.attrs.get<Axes>("axes"))),
        meets_(parts > 1 && is_worth_meeting(parts)) {
    if (!empty_) loops_ = loops_of(whole_.shape, whole_.axes);
  }

  int phases() const override { return meets_ ? 2 : 1; }
  size_t workspace_bytes() const override {
    return meets_ ? static_cast<size_t>(count_) * sizeof(T) : 0;
  }

  void run(const op::Launch& launch) const override {
    if (meets_ && launch.phase == 0) return reduce_part(launch);
    const auto [begin, end] = split_.part(launch);
    if (begin == end) return;
    T* out = launch.out<T>(0);
    if (empty_) {
      std::fill(out + begin, out + end, fold_.start);
    } else if (meets_) {
      join_parts(launch, out, begin, end);
    } else {
      reduce(loops_, fold_, launch.in<T>(0), out, begin, end);
    }
    if (factor_.is_one()) return;
    const auto scale = static_cast<T>(factor_.value(launch));
    for (int64_t i = begin; i < end; ++i) out[i] *= scale;
  }

 private:
  bool is_worth_meeting(int parts) const {
    return contains(whole_.axes, 0) && whole_.shape.count() >= kWorthMeeting &&
           whole_.shape[0] >= kRowsPerThread * parts &&
           (split_.rows < parts || count_ < kColumnsPerThread * parts);
  }

  /// This thread's part of the leading axis, all of the result.
  void reduce_part(const op::Launch& launch) const {
    const auto [begin, end] = op::part_of(whole_.shape[0], launch);
    T* out = launch.workspace<T>();
    if (begin == end) {
      std::fill_n(out, count_, fold_.start);
      return;
    }
    const int64_t per_row = whole_.shape.count() / whole_.shape[0];
    const ReduceLoops own = loops_of(whole_.shape.with(0, end - begin), whole_.axes);
    reduce(own, fold_, launch.in<T>(0) + begin * per_row, out, 0, count_);
  }

  void join_parts(const op::Launch& launch, T* out, int64_t begin, int64_t end) const {
    std::copy(launch.workspace<T>(0) + begin, launch.workspace<T>(0) + end, out + begin);
    for (int part = 1; part < launch.parts; ++part) {
      fold_.columns({launch.workspace<T>(part) + begin, 1, 0, end - begin}, out + begin);
    }
  }

  Fold<T> fold_;
  Factor factor_;
  RowSplit split_;
  int64_t count_;
  bool empty_;
  Merged whole_;
  bool meets_;
  ReduceLoops loops_;
};

int64_t meeting_in_one(const op::Signature& s) {
  int64_t meeting = 1;
  for (int64_t axis : s.attrs.get<Axes>("axes")) {
    meeting *= s.inputs[0].shape[static_cast<int>(axis)];
  }
  return meeting;
}

template <class T>
op::ExecutablePtr prepare_sum(const op::Signature& s, int parts) {
  return std::make_shared<Reduce<T>>(s, parts, best_fold(FoldKind::sum, T()),
                                     Factor(s.attrs, meeting_in_one(s)));
}

template <class T, FoldKind kKind>
op::ExecutablePtr prepare_fold(const op::Signature& s, int parts) {
  return std::make_shared<Reduce<T>>(s, parts, best_fold(kKind, T()), Factor());
}

/// Any is the maximum of bytes that are 0 or 1, all is their minimum.
template <FoldKind kKind>
op::ExecutablePtr prepare_logical(const op::Signature& s, int parts) {
  Fold<uint8_t> fold = best_fold(kKind, uint8_t());
  fold.start = kKind == FoldKind::min ? 1 : 0;
  return std::make_shared<Reduce<uint8_t>>(s, parts, fold, Factor());
}

template <class T>
op::ExecutablePtr prepare_share(const op::Signature& s, int) {
  return op::executable([split = RowSplit(s.outputs[0].shape)](const op::Launch& launch) {
    const auto [begin, end] = split.part(launch);
    const T* x = launch.in<T>(0);
    T* out = launch.out<T>(0);
    for (int64_t i = begin; i < end; ++i) out[i] = x[i] > 0 ? 1 / x[i] : T(0);
  });
}

template <class... T>
void register_sums(op::BackendKernels& kernels) {
  (kernels.add("reduce", {dtype_of<T>}, prepare_sum<T>), ...);
  (kernels.add("reduce_prod", {dtype_of<T>}, prepare_fold<T, FoldKind::prod>), ...);
}

template <class... T>
void register_extremes(op::BackendKernels& kernels) {
  (kernels.add("reduce_max", {dtype_of<T>}, prepare_fold<T, FoldKind::max>), ...);
  (kernels.add("reduce_min", {dtype_of<T>}, prepare_fold<T, FoldKind::min>), ...);
}

}  // namespace

void register_reduction(op::BackendKernels& kernels) {
  register_sums<float, double, int32_t, int64_t>(kernels);
  register_extremes<float, double, int32_t, int64_t, uint8_t>(kernels);
  kernels.add("reduce_any", {DType::boolean}, prepare_logical<FoldKind::max>);
  kernels.add("reduce_all", {DType::boolean}, prepare_logical<FoldKind::min>);
  kernels.add("share", {DType::float32}, prepare_share<float>);
  kernels.add("share", {DType::float64}, prepare_share<double>);
}

}  // namespace tandem::kernels::cpu
