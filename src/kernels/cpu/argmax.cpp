#include <cstdint>

#include "kernels/cpu/part.h"
#include "op/registry.h"

namespace tandem::kernels::cpu {
namespace {

/// The first of the largest of `count` elements that lie `stride` apart.
template <class T>
int64_t argmax(const T* x, int64_t count, int64_t stride) {
  int64_t best = 0;
  T largest = *x;
  for (int64_t i = 1; i < count; ++i) {
    const T value = x[i * stride];
    best = value > largest ? i : best;
    largest = value > largest ? value : largest;
  }
  return best;
}

template <class T>
op::ExecutablePtr prepare_argmax(const op::Signature& s, int) {
  const Shape& shape = s.inputs[0].shape;
  const auto axis = static_cast<int>(s.attrs.get<int64_t>("axis"));
  int64_t stride = 1;
  for (int inner = axis + 1; inner < shape.rank(); ++inner) stride *= shape[inner];
  return op::executable([count = shape[axis], stride,
                         split = RowSplit(s.outputs[0].shape)](const op::Launch& launch) {
    const auto [begin, end] = split.part(launch);
    if (begin == end) return;
    const T* x = launch.in<T>(0) + begin / stride * count * stride;
    int64_t inside = begin % stride;
    for (int64_t i = begin; i < end; ++i) {
      launch.out<int64_t>(0)[i] = argmax(x + inside, count, stride);
      if (++inside == stride) {
        inside = 0;
        x += count * stride;
      }
    }
  });
}

template <class... T>
void register_all(op::Registry& registry) {
  (registry.add_kernel("argmax", "cpu", {dtype_of<T>}, prepare_argmax<T>), ...);
}

}  // namespace

void register_argmax(op::Registry& registry) {
  register_all<float, double, int32_t, int64_t>(registry);
}

}  // namespace tandem::kernels::cpu
