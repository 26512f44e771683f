/// A tensor seen from an axis: [outer, size, inner]. Indices along the axis name its rows.
#pragma once

#include <fmt/format.h>

#include "op/op_def.h"
#include "tandem/error.h"

namespace tandem::kernels {

struct AxisView {
  /// Takes a call with the attribute axis.
  AxisView(const Shape& shape, const op::Signature& s)
      : axis(static_cast<int>(s.attrs.get<int64_t>("axis"))), shape(shape), size(shape[axis]) {
    for (int i = 0; i < axis; ++i) outer *= shape[i];
    for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  }

  void check(const char* op, int64_t index) const {
    if (index < 0 || index >= size) throw_out_of_range(op, index);
  }

  [[noreturn]] void throw_out_of_range(const char* op, int64_t index) const {
    throw InvalidArgument(
        fmt::format("{}: index {} is out of range for axis {} of {}, which has {}", op, index, axis,
                    shape.str(), size));
  }

  int axis;
  Shape shape;
  int64_t outer = 1;
  int64_t size;
  int64_t inner = 1;
};

}  // namespace tandem::kernels
