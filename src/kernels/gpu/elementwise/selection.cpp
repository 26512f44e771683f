// where: one or the other of two values. They are moved as words of their size.
#include "kernels/gpu/elementwise/element_kernel.h"

namespace tandem::kernels::gpu {
namespace {

/// A dtype of the same size, whose elements keep their bits when they are moved.
DType moved_as(DType dtype) {
  switch (size_of(dtype)) {
    case 1:
      return DType::uint8;
    case 2:
      return DType::float16;  // Stored as a whole number.
    case 4:
      return DType::int32;
    default:
      return DType::int64;
  }
}

ExecutablePtr prepare_where(const Signature& s, const Device& device) {
  const DType dtype = moved_as(s.outputs[0].dtype);
  return element_executable(device,
                            {.name = "where",
                             .inputs = {DType::boolean, dtype, dtype},
                             .outputs = {dtype},
                             .results = {"x0 != 0 ? x1 : x2"}},
                            Loops(s));
}

}  // namespace

void register_selection(op::BackendKernels& kernels) {
  add_kernel(kernels, "where", {DType::boolean}, prepare_where);
}

}  // namespace tandem::kernels::gpu
