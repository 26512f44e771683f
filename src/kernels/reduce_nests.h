/// The loops of a reduction.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/nest.h"

namespace tandem::kernels {

/// The input's axes, sorted into those that stay and those that are reduced, with their distances
/// in the input.
struct ReduceNests {
  Nest<1> kept;
  Nest<1> reduced;

  /// What meets in one lies side by side, at least in runs.
  bool reduces_innermost() const {
    return reduced.rank() > 0 && reduced[reduced.rank() - 1].strides[0] == 1;
  }
};

inline bool contains(const std::vector<int64_t>& axes, int axis) {
  return std::ranges::find(axes, axis) != axes.end();
}

/// `shape` has elements.
inline ReduceNests reduce_nests(const Shape& shape, const std::vector<int64_t>& axes) {
  ReduceNests nests;
  int64_t stride = shape.count();
  for (int axis = 0; axis < shape.rank(); ++axis) {
    stride /= shape[axis];
    (contains(axes, axis) ? nests.reduced : nests.kept).add({shape[axis], {stride}});
  }
  return nests;
}

}  // namespace tandem::kernels
