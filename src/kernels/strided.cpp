#include "kernels/strided.h"

namespace tandem::kernels {
namespace {

using List = std::vector<int64_t>;

/// Element (i, j, ..) of `to` is the one at base + i * strides[0] + j * strides[1] + .. of the
/// input.
Strided strided(const Shape& to, int64_t base, const List& strides) {
  const List own = strides_of(to);
  Strided result{base, {}};
  for (size_t axis = 0; axis < strides.size(); ++axis) {
    result.loops.add({to[static_cast<int>(axis)], {strides[axis], own[axis]}});
  }
  return result;
}

}  // namespace

Strided transposed(const op::Signature& s) {
  const List strides = strides_of(s.inputs[0].shape);
  List permuted;
  for (int64_t axis : s.attrs.get<List>("permutation")) {
    permuted.push_back(strides[static_cast<size_t>(axis)]);
  }
  return strided(s.outputs[0].shape, 0, permuted);
}

Strided sliced(const op::Signature& s) {
  const auto& begin = s.attrs.get<List>("begin");
  const auto& step = s.attrs.get<List>("step");
  List strides = strides_of(s.inputs[0].shape);
  int64_t base = 0;
  for (size_t axis = 0; axis < strides.size(); ++axis) {
    base += begin[axis] * strides[axis];
    strides[axis] *= step[axis];
  }
  return strided(s.outputs[0].shape, base, strides);
}

std::vector<int64_t> strides_of(const Shape& shape) {
  List strides(static_cast<size_t>(shape.rank()));
  int64_t stride = 1;
  for (int axis = shape.rank(); axis-- > 0;) {
    strides[static_cast<size_t>(axis)] = stride;
    stride *= shape[axis];
  }
  return strides;
}

}  // namespace tandem::kernels
