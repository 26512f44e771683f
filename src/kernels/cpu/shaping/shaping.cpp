// Ops that change the shape and not the elements copy them, where they cannot share the memory; and
// `shape`, which writes a tensor's sizes.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/part.h"
#include "op/registry.h"

namespace tandem::kernels::cpu {
namespace {

/// The same elements in the same order.
op::ExecutablePtr prepare_copy(const op::Signature& s, int) {
  return op::executable([split = RowSplit(s.outputs[0].shape),
                         element = size_of(s.outputs[0].dtype)](const op::Launch& launch) {
    const auto [begin, end] = split.part(launch);
    if (begin == end) return;
    const size_t first = static_cast<size_t>(begin) * element;
    std::memcpy(launch.out<char>(0) + first, launch.in<char>(0) + first,
                static_cast<size_t>(end - begin) * element);
  });
}

/// The sizes are known when a plan is made.
template <class T>
op::ExecutablePtr shape_writer(const Shape& shape) {
  const auto extents = shape.extents();
  return op::executable(
      [sizes = std::vector<T>(extents.begin(), extents.end())](const op::Launch& launch) {
        std::ranges::copy(sizes, launch.out<T>(0));
      });
}

op::ExecutablePtr prepare_shape(const op::Signature& s, int) {
  return s.outputs[0].dtype == DType::int32 ? shape_writer<int32_t>(s.inputs[0].shape)
                                            : shape_writer<int64_t>(s.inputs[0].shape);
}

}  // namespace

void register_shaping(op::BackendKernels& kernels) {
  for (const char* name : {"reshape", "identity", "stop_gradient", "recompute_input"}) {
    kernels.add(name, all_dtypes(), prepare_copy);
  }
  kernels.add("shape", all_dtypes(), prepare_shape);
}

}  // namespace tandem::kernels::cpu
