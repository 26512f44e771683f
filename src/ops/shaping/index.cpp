// x(0, Slice(1, 3)) is a strided slice of which axes are then taken away, or added.
#include "tandem/tensor/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ops/shaping/exact_shape.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem {
namespace {

using Kind = Index::Kind;
using Indices = std::initializer_list<Index>;

int number_of(Kind kind, const Indices& indices) {
  return static_cast<int>(std::ranges::count(indices, kind, &Index::kind));
}

/// The number of axes that an ellipsis stands for.
int axes_left(const Indices& indices, const Shape& shape) {
  const int named = number_of(Kind::position, indices) + number_of(Kind::stride, indices);
  if (named > shape.rank() || number_of(Kind::ellipsis, indices) > 1) {
    throw InvalidArgument(
        fmt::format("index: {} positions and slices and {} ellipses for the axes of {}", named,
                    number_of(Kind::ellipsis, indices), shape.str()));
  }
  return shape.rank() - named;
}

Stride stride_at(int64_t position) {
  const bool is_last = position == -1 || position == std::numeric_limits<int64_t>::max();
  return {.begin = position, .end = is_last ? std::nullopt : std::optional(position + 1)};
}

std::vector<Stride> strides_of(const Indices& indices, int left) {
  std::vector<Stride> strides;
  for (const Index& index : indices) {
    if (index.kind() == Kind::position) strides.push_back(stride_at(index.position()));
    if (index.kind() == Kind::stride) strides.push_back(index.stride());
    if (index.kind() == Kind::ellipsis) strides.resize(strides.size() + static_cast<size_t>(left));
  }
  return strides;
}

[[noreturn]] void throw_out_of_range(int64_t position, int axis, const Shape& shape) {
  throw InvalidArgument(
      fmt::format("index: position {} is not within axis {} of {}", position, axis, shape.str()));
}

}  // namespace

Tensor Tensor::part(Indices indices) const {
  const int left = axes_left(indices, shape());
  const Tensor cut = strided_slice(*this, strides_of(indices, left));
  Shape result = cut.shape();
  int axis = 0;
  int dropped = 0;
  for (const Index& index : indices) {
    if (index.kind() == Kind::stride) ++axis;
    if (index.kind() == Kind::ellipsis) axis += left;
    if (index.kind() != Kind::position) continue;
    if (result[axis] != 1) throw_out_of_range(index.position(), axis + dropped, shape());
    result = result.without(axis);
    ++dropped;
  }
  axis = 0;
  for (const Index& index : indices) {
    if (index.kind() == Kind::newaxis) result = result.inserted(axis, 1);
    if (index.kind() == Kind::newaxis || index.kind() == Kind::stride) ++axis;
    if (index.kind() == Kind::ellipsis) axis += left;
  }
  return result == cut.shape() ? cut : ops::with_shape(cut, result);
}

}  // namespace tandem
