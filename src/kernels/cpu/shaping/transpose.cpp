// transpose: a copy whose strides are the input's in another order.
#include "kernels/cpu/shaping/strided_copy.h"
#include "op/registry.h"

namespace tandem::kernels::cpu {
namespace {

op::ExecutablePtr prepare_transpose(const op::Signature& s, int) {
  const std::vector<int64_t> strides = strides_of(s.inputs[0].shape);
  std::vector<int64_t> permuted;
  for (int64_t axis : s.attrs.get<std::vector<int64_t>>("permutation")) {
    permuted.push_back(strides[static_cast<size_t>(axis)]);
  }
  return op::executable([copy = StridedCopy(s.outputs[0], 0, permuted)](const op::Launch& launch) {
    copy.run(launch);
  });
}

}  // namespace

void register_transpose(op::BackendKernels& kernels) {
  kernels.add("transpose", all_dtypes(), prepare_transpose);
}

}  // namespace tandem::kernels::cpu
