// argmax and argmin: the place of the first largest or smallest number along an axis. NaN is never
// chosen while there is a number.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>

#include "kernels/part.h"
#include "op/registry.h"
#include "tandem/error.h"

namespace tandem::kernels::cpu {
namespace {

// So many elements of the result are found at once where their inputs lie side by side.
constexpr int64_t kColumns = 256;

/// True where x comes before the best so far: a better number, or the first that is a number.
template <class Better, class T>
bool beats(T x, T best) {
  if constexpr (std::is_floating_point_v<T>) {
    return Better()(x, best) || (best != best && x == x);
  } else {
    return Better()(x, best);
  }
}

/// The first of the best of `count` elements.
template <class Better, class T>
int64_t best_of_run(const T* x, int64_t count) {
  int64_t best = 0;
  T value = *x;
  for (int64_t i = 1; i < count; ++i) {
    const bool better = beats<Better>(x[i], value);
    best = better ? i : best;
    value = better ? x[i] : value;
  }
  return best;
}

/// The same for each of up to kColumns columns, whose rows lie `stride` apart.
template <class Better, class T>
void best_of_columns(const T* x, int64_t count, int64_t stride, int64_t columns, int64_t* out) {
  std::array<T, kColumns> values;
  std::copy_n(x, columns, values.begin());
  std::fill_n(out, columns, 0);
  for (int64_t i = 1; i < count; ++i) {
    x += stride;
    for (int64_t c = 0; c < columns; ++c) {
      const bool better = beats<Better>(x[c], values[static_cast<size_t>(c)]);
      out[c] = better ? i : out[c];
      values[static_cast<size_t>(c)] = better ? x[c] : values[static_cast<size_t>(c)];
    }
  }
}

template <class Better, class T>
op::ExecutablePtr prepare_best(const op::Signature& s, int) {
  const Shape& shape = s.inputs[0].shape;
  const auto axis = static_cast<int>(s.attrs.get<int64_t>("axis"));
  // The size is known only now where the axis is that of the rows.
  if (shape[axis] == 0) throw InvalidArgument(fmt::format("{}: a batch of no rows", s.op->name));
  int64_t stride = 1;
  for (int inner = axis + 1; inner < shape.rank(); ++inner) stride *= shape[inner];
  return op::executable([count = shape[axis], stride,
                         split = RowSplit(s.outputs[0].shape)](const op::Launch& launch) {
    const auto [begin, end] = split.part(launch);
    int64_t* out = launch.out<int64_t>(0);
    for (int64_t i = begin; i < end;) {
      const T* x = launch.in<T>(0) + i / stride * count * stride + i % stride;
      if (stride == 1) {
        out[i++] = best_of_run<Better>(x, count);
      } else {
        const int64_t columns = std::min({kColumns, stride - i % stride, end - i});
        best_of_columns<Better>(x, count, stride, columns, out + i);
        i += columns;
      }
    }
  });
}

template <class... T>
void register_all(op::BackendKernels& kernels) {
  (kernels.add("argmax", {dtype_of<T>}, prepare_best<std::greater<>, T>), ...);
  (kernels.add("argmin", {dtype_of<T>}, prepare_best<std::less<>, T>), ...);
}

}  // namespace

void register_argmax(op::BackendKernels& kernels) {
  register_all<float, double, int32_t, int64_t, uint8_t>(kernels);
}

}  // namespace tandem::kernels::cpu
