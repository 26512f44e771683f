/// The matrices that a matmul multiplies, whatever the backend.
#pragma once

#include "kernels/nest.h"

namespace tandem::kernels {

/// One product: op(A) is m x k, op(B) is k x n, C is m x n. A leading dimension is the distance
/// between two rows in memory, in elements: of A as it lies there, k x m if transposed.
struct MatmulShape {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t lda = 0, ldb = 0, ldc = 0;
  /// Where the matrices of A and B lie, in elements. Those of C follow one another. Matrices of A
  /// that lie below each other and meet the same B are one, with `m` rows.
  Nest<2> batch{};

  static MatmulShape of(const op::Signature& s);
};

inline MatmulShape MatmulShape::of(const op::Signature& s) {
  const Shape& a = s.inputs[0].shape;
  const Shape& b = s.inputs[1].shape;
  const Shape& c = s.outputs[0].shape;
  const auto last = [](const Shape& shape, int place) { return shape[shape.rank() - place]; };
  const auto matrices = [](const Shape& shape) {
    return Shape(shape.extents().first(static_cast<size_t>(shape.rank() - 2)));
  };
  MatmulShape shape{.m = last(c, 2),
                    .n = last(c, 1),
                    .transpose_a = s.attrs.get<bool>("transpose_a"),
                    .transpose_b = s.attrs.get<bool>("transpose_b"),
                    .lda = last(a, 1),
                    .ldb = last(b, 1),
                    .ldc = last(c, 1)};
  shape.k = last(a, shape.transpose_a ? 2 : 1);
  const int64_t a_elements = last(a, 2) * last(a, 1);
  const int64_t b_elements = last(b, 2) * last(b, 1);
  const Shape all = matrices(c);
  for (int axis = 0; axis < all.rank(); ++axis) {
    shape.batch.add({all[axis],
                     {broadcast_stride(matrices(a), all, axis) * a_elements,
                      broadcast_stride(matrices(b), all, axis) * b_elements}});
  }
  if (shape.batch.rank() == 0 || shape.transpose_a) return shape;
  const Axis<2> inner = shape.batch.take_inner();
  if (inner.strides[0] == a_elements && inner.strides[1] == 0) {
    shape.m *= inner.size;
  } else {
    shape.batch.add(inner);
  }
  return shape;
}

}  // namespace tandem::kernels
