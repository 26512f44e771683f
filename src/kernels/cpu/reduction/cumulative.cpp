// cumsum: sums along an axis, from either end, with or without the element itself.
#include <cstdint>
#include <functional>

#include "kernels/cpu/wrapping.h"
#include "kernels/part.h"
#include "op/registry.h"

namespace tandem::kernels::cpu {
namespace {

/// Sums along `size` steps of `inner` elements each, forwards or backwards.
template <class T>
struct Cumsum {
  int64_t size;
  int64_t inner;
  bool exclusive;
  bool reverse;

  void run(const T* x, T* out) const {
    const int64_t step = reverse ? -inner : inner;
    const int64_t start = reverse ? (size - 1) * inner : 0;
    x += start;
    out += start;
    std::copy_n(x, inner, out);
    if (exclusive) std::fill_n(out, inner, T(0));
    for (int64_t i = 1; i < size; ++i, x += step, out += step) {
      const T* added = exclusive ? x : x + step;
      for (int64_t k = 0; k < inner; ++k) {
        out[step + k] = Wrapping<std::plus>()(out[k], added[k]);
      }
    }
  }
};

template <class T>
op::ExecutablePtr prepare_cumsum(const op::Signature& s, int) {
  const Shape& shape = s.inputs[0].shape;
  const auto axis = static_cast<int>(s.attrs.get<int64_t>("axis"));
  int64_t outer = 1;
  for (int i = 1; i < axis; ++i) outer *= shape[i];
  Cumsum<T> sums{shape[axis], 1, s.attrs.get<bool>("exclusive"), s.attrs.get<bool>("reverse")};
  for (int i = axis + 1; i < shape.rank(); ++i) sums.inner *= shape[i];
  // Each unit of the split holds so many runs of the axis.
  const int64_t units = axis == 0 ? 1 : shape.extent(0);
  const bool empty = shape.count() == 0;
  return op::executable([=](const op::Launch& launch) {
    if (empty) return;
    const auto [begin, end] = op::part_of(units, launch);
    for (int64_t run = begin * outer; run < end * outer; ++run) {
      const int64_t first = run * sums.size * sums.inner;
      sums.run(launch.in<T>(0) + first, launch.out<T>(0) + first);
    }
  });
}

template <class... T>
void register_all(op::BackendKernels& kernels) {
  (kernels.add("cumsum", {dtype_of<T>}, prepare_cumsum<T>), ...);
}

}  // namespace

void register_cumulative(op::BackendKernels& kernels) {
  register_all<float, double, int32_t, int64_t>(kernels);
}

}  // namespace tandem::kernels::cpu
