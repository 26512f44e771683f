/// Loops over several axes at once, and where each of N operands stands at every point of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "op/op_def.h"

namespace tandem::kernels {

template <int N>
struct Axis {
  int64_t size = 1;
  std::array<int64_t, N> strides{};  ///< Distances in elements; 0 where an operand is repeated.
};

template <int N>
class Nest {
 public:
  /// Adds an axis inside of those that are there. It becomes one with the innermost of them where
  /// every operand goes on evenly, so that loops are few and long.
  void add(const Axis<N>& axis) {
    if (axis.size == 1) return;
    if (rank_ > 0 && continues(axes_[rank_ - 1], axis)) {
      axes_[rank_ - 1].strides = axis.strides;
      axes_[rank_ - 1].size *= axis.size;
    } else {
      axes_[rank_++] = axis;
    }
  }

  /// Removes the innermost axis and returns it; an axis of one point if there is none.
  Axis<N> take_inner() { return rank_ == 0 ? Axis<N>{} : axes_[--rank_]; }

  size_t rank() const { return rank_; }
  const Axis<N>& operator[](size_t axis) const { return axes_[axis]; }

  int64_t count() const {
    int64_t count = 1;
    for (size_t axis = 0; axis < rank_; ++axis) count *= axes_[axis].size;
    return count;
  }

 private:
  static bool continues(const Axis<N>& outer, const Axis<N>& inner) {
    for (size_t i = 0; i < N; ++i) {
      if (outer.strides[i] != inner.strides[i] * inner.size) return false;
    }
    return true;
  }

  std::array<Axis<N>, Shape::kMaxRank> axes_{};
  size_t rank_ = 0;
};

/// A point of a nest, which must outlive it. It starts anywhere and moves on in row-major order.
template <int N>
class Position {
 public:
  Position(const Nest<N>& nest, int64_t index) : nest_(nest) {
    for (size_t axis = nest.rank(); axis-- > 0;) {
      const Axis<N>& at = nest[axis];
      coordinates_[axis] = index % at.size;
      index /= at.size;
      for (size_t i = 0; i < N; ++i) offsets_[i] += coordinates_[axis] * at.strides[i];
    }
  }

  int64_t offset(size_t operand = 0) const { return offsets_[operand]; }

  void next() {
    for (size_t axis = nest_.rank(); axis-- > 0;) {
      const Axis<N>& at = nest_[axis];
      for (size_t i = 0; i < N; ++i) offsets_[i] += at.strides[i];
      if (++coordinates_[axis] < at.size) return;
      coordinates_[axis] = 0;
      for (size_t i = 0; i < N; ++i) offsets_[i] -= at.strides[i] * at.size;
    }
  }

 private:
  const Nest<N>& nest_;
  std::array<int64_t, N> offsets_{};
  std::array<int64_t, Shape::kMaxRank> coordinates_;  // They are set as far as the nest's rank.
};

/// Each point of `outer` is a run of `inner_size` points. Walks the points [begin, end) of them
/// all, one run at a time: visit(where the run is, its first point to visit, how many, the index of
/// the first).
template <int N, class Visit>
inline void for_each_run(const Nest<N>& outer, int64_t inner_size, int64_t begin, int64_t end,
                         Visit visit) {
  if (begin >= end) return;
  Position<N> position(outer, begin / inner_size);
  int64_t first = begin % inner_size;
  for (int64_t index = begin; index < end; position.next()) {
    const int64_t count = std::min(inner_size - first, end - index);
    visit(position, first, count, index);
    index += count;
    first = 0;
  }
}

/// How far an operand of the shape `from` moves along an axis of `to`, which it is broadcast to.
inline int64_t broadcast_stride(const Shape& from, const Shape& to, int axis) {
  const int own = axis - (to.rank() - from.rank());
  if (own < 0 || (from[own] == 1 && to[axis] != 1)) return 0;
  int64_t stride = 1;
  for (int inner = own + 1; inner < from.rank(); ++inner) stride *= from[inner];
  return stride;
}

/// The loops of a call whose N inputs are broadcast to its output.
template <int N>
Nest<N> broadcast_nest(const op::Signature& s) {
  const Shape& out = s.outputs[0].shape;
  Nest<N> nest;
  for (int axis = 0; axis < out.rank(); ++axis) {
    Axis<N> loop{out[axis], {}};
    for (size_t i = 0; i < N; ++i) {
      loop.strides[i] = broadcast_stride(s.inputs[i].shape, out, axis);
    }
    nest.add(loop);
  }
  return nest;
}

}  // namespace tandem::kernels
