#include "ops/shaping/broadcast.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ops/shaping/exact_shape.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem::ops {

Shape broadcast_shapes(std::string_view op, const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::array<int64_t, Shape::kMaxRank> sizes{};
  for (int axis = 0; axis < rank; ++axis) {
    const int in_a = axis - (rank - a.rank());
    const int in_b = axis - (rank - b.rank());
    const int64_t size_a = in_a < 0 ? 1 : a.extent(in_a);
    const int64_t size_b = in_b < 0 ? 1 : b.extent(in_b);
    if (size_a != size_b && size_a != 1 && size_b != 1) {
      throw InvalidArgument(
          fmt::format("{}: shapes do not broadcast, {} and {}", op, a.str(), b.str()));
    }
    sizes[static_cast<size_t>(axis)] = size_a == 1 ? size_b : size_a;
  }
  return Shape(std::span<const int64_t>(sizes).first(static_cast<size_t>(rank)));
}

Tensor sum_to_shape(const Tensor& gradient, const Shape& shape) {
  const Shape& from = gradient.shape();
  if (from == shape) return gradient;
  std::vector<int> axes;
  const int extra = from.rank() - shape.rank();
  for (int axis = 0; axis < from.rank(); ++axis) {
    if (axis < extra || shape.extent(axis - extra) != from.extent(axis)) axes.push_back(axis);
  }
  const Tensor summed = reduce_sum(gradient, {.axes = axes});
  return summed.shape() == shape ? summed : with_shape(summed, shape);
}

void check_same_dtype(const op::Signature& signature) {
  const op::TensorType& a = signature.inputs[0];
  const op::TensorType& b = signature.inputs[1];
  if (a.dtype == b.dtype) return;
  throw InvalidArgument(fmt::format("{}: dtypes differ, {} and {}; cast one of them",
                                    signature.op->name, a.str(), b.str()));
}

void check_floating(const op::Signature& signature) {
  const DType dtype = signature.inputs[0].dtype;
  if (dtype == DType::float32 || dtype == DType::float64) return;
  throw InvalidArgument(fmt::format("{}: {} is not supported; float32 and float64 are",
                                    signature.op->name, name_of(dtype)));
}

int normalized_axis(std::string_view op, int axis, const Shape& shape) {
  const int result = axis < 0 ? axis + shape.rank() : axis;
  if (result >= 0 && result < shape.rank()) return result;
  throw InvalidArgument(fmt::format("{}: axis {} is out of range for {}", op, axis, shape.str()));
}

}  // namespace tandem::ops
