// Ops that change the shape and not the elements copy them, where they cannot share the memory; and
// `shape`, which writes a tensor's sizes.
#include "kernels/gpu/axes.h"

namespace tandem::kernels::gpu {
namespace {

/// The same elements in the same order.
ExecutablePtr prepare_copy(const Signature& s, const Device& device) {
  const size_t bytes = s.outputs[0].bytes();
  return op::executable([bytes, space = &device.space()](const Launch& launch) {
    launch.queue->copy(*space, launch.out<void>(0), *space, launch.in<void>(0), bytes);
  });
}

constexpr const char* kShape = R"(
KERNEL NAME(MEMORY(0), i64 rank, AXES) {
  LISTS
  GLOBAL T* y = AT(T, 0);
  if (GID() == 0) for (int a = 0; a < RANK; ++a) if (a < rank) y[a] = (T)n[a];
}
)";

/// The sizes are known when a plan is made.
ExecutablePtr prepare_shape(const Signature& s, const Device& device) {
  Words words = types_of(s.outputs[0].dtype);
  add_axes(words, Shape::kMaxRank, {"n"});
  const Kernel kernel(device, {.name = "shape", .words = words, .body = kShape});
  return op::executable([kernel, shape = s.inputs[0].shape](const Launch& launch) {
    Call call(launch, kernel);
    call.out(0).whole(shape.rank());
    for (int axis = 0; axis < Shape::kMaxRank; ++axis) {
      call.whole(axis < shape.rank() ? shape.extent(axis) : 0);
    }
    call.each(shape.rank());
  });
}

}  // namespace

void register_shaping(op::BackendKernels& kernels) {
  for (const char* name : {"reshape", "identity", "stop_gradient", "recompute_input"}) {
    add_kernel(kernels, name, all_dtypes(), prepare_copy);
  }
  add_kernel(kernels, "shape", all_dtypes(), prepare_shape);
}

}  // namespace tandem::kernels::gpu
