// concat: each input is copied to its place in the result.
#include "kernels/gpu/shaping/gpu_strided_copy.h"

namespace tandem::kernels::gpu {
namespace {

/// Seen from the axis along which they join, each input is so many blocks of so many elements,
/// which take turns in the result.
ExecutablePtr prepare_concat(const Signature& s, const Device& device) {
  const Shape& out = s.outputs[0].shape;
  const auto axis = static_cast<int>(s.attrs.get<int64_t>("axis"));
  int64_t blocks = 1;
  int64_t inner = 1;
  for (int i = 0; i < axis; ++i) blocks *= out[i];
  for (int i = axis + 1; i < out.rank(); ++i) inner *= out[i];
  std::vector<StridedCopy> copies;
  int64_t to = 0;
  for (const op::TensorType& input : s.inputs) {
    const int64_t run = input.shape[axis] * inner;
    Strided strided;
    strided.loops.add({blocks, {run, out[axis] * inner}});
    strided.loops.add({run, {1, 1}});
    copies.emplace_back(device, input.dtype, strided, to);
    to += run;
  }
  return op::executable([copies = std::move(copies)](const Launch& launch) {
    for (size_t i = 0; i < copies.size(); ++i) copies[i].run(launch, static_cast<int>(i));
  });
}

}  // namespace

void register_joining(op::BackendKernels& kernels) {
  add_kernel(kernels, "concat", all_dtypes(), prepare_concat);
}

}  // namespace tandem::kernels::gpu
