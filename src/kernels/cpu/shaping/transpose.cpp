// transpose: a copy whose strides are the input's in another order.
#include "kernels/cpu/shaping/strided_copy.h"
#include "op/registry.h"

namespace tandem::kernels::cpu {
namespace {

op::ExecutablePtr prepare_transpose(const op::Signature& s, int) {
  return op::executable([copy = StridedCopy(s.outputs[0], transposed(s))](
                            const op::Launch& launch) { copy.run(launch); });
}

}  // namespace

void register_transpose(op::BackendKernels& kernels) {
  kernels.add("transpose", all_dtypes(), prepare_transpose);
}

}  // namespace tandem::kernels::cpu
