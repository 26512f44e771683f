#include "kernels/cpu/shaping/strided_copy.h"

#include <cstring>

#include "kernels/pattern.h"

namespace tandem::kernels::cpu {
namespace {

/// Elements of a matrix, read along one side and written along the other.
struct Corner {
  int64_t rows;         ///< Rows of the result: neighbours in the input.
  int64_t columns;      ///< Columns of the result: neighbours in it.
  int64_t from_stride;  ///< The distance from column to column, in the input.
  int64_t to_stride;    ///< The distance from row to row, in the result.
};

// A tile is read and written by whole cache lines, through a buffer: matrices whose sides are
// powers of two have all lines of a tile in one set of the cache.
template <class U>
constexpr int64_t kTile = sizeof(U) < 8 ? 64 : 32;

/// Where blocks of 4 x 4 elements are four registers, they are transposed there.
constexpr int64_t kBlock = 4;

void transpose_block(const uint32_t* from, int64_t from_stride, uint32_t* to, int64_t to_stride) {
  using Vector [[gnu::vector_size(16)]] = uint32_t;
  const auto load = [&](int64_t column) {
    Vector v;
    std::memcpy(&v, from + column * from_stride, sizeof v);
    return v;
  };
  const auto store = [&](int64_t row, Vector v) {
    std::memcpy(to + row * to_stride, &v, sizeof v);
  };
  const Vector a = load(0), b = load(1), c = load(2), d = load(3);
  const Vector ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Vector ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Vector cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Vector cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  store(0, __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5));
  store(1, __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7));
  store(2, __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5));
  store(3, __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7));
}

template <class U>
void transpose_tile(const Corner& at, const U* from, U* to) {
  constexpr int64_t kSide = kTile<U>;
  U buffer[kSide * kSide];
  int64_t by_block = 0;  // Columns whose first rows are done.
  int64_t rows_by_block = 0;
  if constexpr (sizeof(U) == sizeof(uint32_t)) {
    by_block = at.columns / kBlock * kBlock;
    rows_by_block = at.rows / kBlock * kBlock;
    for (int64_t column = 0; column < by_block; column += kBlock) {
      for (int64_t row = 0; row < rows_by_block; row += kBlock) {
        transpose_block(from + column * at.from_stride + row, at.from_stride,
                        buffer + row * kSide + column, kSide);
      }
    }
  }
  for (int64_t column = 0; column < at.columns; ++column) {
    const U* x = from + column * at.from_stride;
    for (int64_t row = column < by_block ? rows_by_block : 0; row < at.rows; ++row) {
      buffer[row * kSide + column] = x[row];
    }
  }
  for (int64_t row = 0; row < at.rows; ++row) {
    std::copy_n(buffer + row * kSide, at.columns, to + row * at.to_stride);
  }
}

template <class U>
void transpose(const Corner& all, const U* from, U* to) {
  constexpr int64_t kSide = kTile<U>;
  for (int64_t row = 0; row < all.rows; row += kSide) {
    for (int64_t column = 0; column < all.columns; column += kSide) {
      transpose_tile<U>({std::min(kSide, all.rows - row), std::min(kSide, all.columns - column),
                         all.from_stride, all.to_stride},
                        from + row + column * all.from_stride, to + row * all.to_stride + column);
    }
  }
}

template <class U, class Visit>
void for_each_point(const Nest<2>& nest, const U* from, U* to, Visit visit) {
  const int64_t count = nest.count();
  Position<2> position(nest, 0);
  for (int64_t i = 0; i < count; ++i, position.next()) {
    visit(from + position.offset(0), to + position.offset(1));
  }
}

/// The axis along which neighbours in the input are neighbours, if it is not the innermost.
size_t unit_axis(const Nest<2>& nest) {
  for (size_t axis = 0; axis < nest.rank(); ++axis) {
    if (nest[axis].strides[0] == 1) return axis;
  }
  return nest.rank();
}

template <class U>
void copy(Nest<2> nest, const U* from, U* to) {
  const Axis<2> inner = nest.take_inner();
  const size_t unit = unit_axis(nest);
  if (inner.strides[0] == 1 || inner.size == 1) {
    const size_t bytes = static_cast<size_t>(inner.size) * sizeof(U);
    for_each_point(nest, from, to, [&](const U* x, U* out) { std::memcpy(out, x, bytes); });
  } else if (unit < nest.rank()) {
    Nest<2> others;
    for (size_t axis = 0; axis < nest.rank(); ++axis) {
      if (axis != unit) others.add(nest[axis]);
    }
    const Corner all{nest[unit].size, inner.size, inner.strides[0], nest[unit].strides[1]};
    for_each_point(others, from, to, [&](const U* x, U* out) { transpose(all, x, out); });
  } else {
    for_each_point(nest, from, to, [&](const U* x, U* out) {
      for (int64_t i = 0; i < inner.size; ++i) out[i] = x[i * inner.strides[0]];
    });
  }
}

}  // namespace

StridedCopy::StridedCopy(const op::TensorType& to, const Strided& strided)
    : strided_(strided), split_(to.shape) {
  run_ = with_word(to.dtype, []<class U>(U) { return &StridedCopy::run_as<U>; });
}

Nest<2> StridedCopy::part(const op::Launch& launch, int64_t& from, int64_t& to) const {
  const auto [begin, end] = split_.part(launch);
  Nest<2> part;
  if (strided_.loops.rank() == 0 || begin == end) return part;
  // The leading loop holds the rows, each so many times as the axes that became one with it.
  const Axis<2>& leading = strided_.loops[0];
  const int64_t first = begin / leading.strides[1];
  from += first * leading.strides[0];
  to += first * leading.strides[1];
  for (size_t axis = 0; axis < strided_.loops.rank(); ++axis) {
    Axis<2> own = strided_.loops[axis];
    if (axis == 0) own.size = end / leading.strides[1] - first;
    part.add(own);
  }
  return part;
}

template <class U>
void StridedCopy::run_as(const op::Launch& launch) const {
  const auto [begin, end] = split_.part(launch);
  if (begin == end) return;
  int64_t from = strided_.base;
  int64_t to = 0;
  const Nest<2> nest = part(launch, from, to);
  copy(nest, launch.in<U>(0) + from, launch.out<U>(0) + to);
}

}  // namespace tandem::kernels::cpu
