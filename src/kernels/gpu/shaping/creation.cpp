// fill: one number everywhere in a tensor. Elements are written as words of their size, whatever
// their dtype.
#include "kernels/gpu/gpu_kernel.h"
#include "kernels/pattern.h"

namespace tandem::kernels::gpu {
namespace {

constexpr const char* kFill = R"(
KERNEL NAME(MEMORY(0), i64 count, i64 word) {
  GLOBAL T* y = AT(T, 0);
  EACH(i, count) y[i] = (T)word;
}
)";

ExecutablePtr prepare_fill(const Signature& s, const Device& device) {
  const op::TensorType& type = s.outputs[0];
  const Kernel kernel(device, {.name = "fill", .words = word_of(type.dtype), .body = kFill});
  const auto word =
      static_cast<int64_t>(Pattern(s.attrs.get<double>("value"), type.dtype).word<uint64_t>());
  return op::executable([kernel, count = count_of(type), word](const Launch& launch) {
    Call(launch, kernel).out(0).whole(count).whole(word).each(count);
  });
}

}  // namespace

void register_creation(op::BackendKernels& kernels) {
  add_kernel(kernels, "fill", all_dtypes(), prepare_fill);
}

}  // namespace tandem::kernels::gpu
