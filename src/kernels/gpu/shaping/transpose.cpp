// transpose: a copy whose strides are the input's in another order.
#include "kernels/gpu/shaping/gpu_strided_copy.h"

namespace tandem::kernels::gpu {

void register_transpose(op::BackendKernels& kernels) {
  add_kernel(kernels, "transpose", all_dtypes(), [](const Signature& s, const Device& device) {
    return op::executable([copy = StridedCopy(device, s.outputs[0].dtype, transposed(s))](
                              const Launch& launch) { copy.run(launch); });
  });
}

}  // namespace tandem::kernels::gpu
