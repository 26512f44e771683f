/// A tensor seen as lines along one of its axes: [outer, length, inner].
#pragma once

#include <cstdint>

#include "kernels/gpu/columns.h"

namespace tandem::kernels::gpu {

struct AxisLines {
  /// Along attribute "axis" of the call, in the shape of its first input.
  explicit AxisLines(const Signature& s) {
    const Shape& shape = s.inputs[0].shape;
    const auto axis = static_cast<int>(s.attrs.get<int64_t>("axis"));
    length = shape[axis];
    for (int i = 0; i < axis; ++i) outer *= shape[i];
    for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  }

  int64_t count() const { return outer * inner; }
  Columns columns() const { return {outer, length, inner}; }

  /// A group of items takes a line, or one item of a CPU. Otherwise items walk down columns: lines
  /// that lie side by side, and on a GPU those that are too short for a group.
  bool are_rows(const Device& device) const {
    constexpr int64_t kShort = 32;
    return inner == 1 && (is_serial(device) || length > kShort);
  }

  int64_t outer = 1, length = 1, inner = 1;
};

}  // namespace tandem::kernels::gpu
