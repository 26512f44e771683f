// fill: one number everywhere in a tensor. Elements are written as words of their size, whatever
// their dtype.
#include <algorithm>

#include "kernels/part.h"
#include "kernels/pattern.h"
#include "op/registry.h"

namespace tandem::kernels::cpu {
namespace {

op::ExecutablePtr prepare_fill(const op::Signature& s, int) {
  const op::TensorType& type = s.outputs[0];
  const Pattern value(s.attrs.get<double>("value"), type.dtype);
  return with_word(type.dtype, [&]<class U>(U) {
    return op::executable(
        [split = RowSplit(type.shape), word = value.word<U>()](const op::Launch& launch) {
          const auto [begin, end] = split.part(launch);
          std::fill(launch.out<U>(0) + begin, launch.out<U>(0) + end, word);
        });
  });
}

}  // namespace

void register_creation(op::BackendKernels& kernels) {
  kernels.add("fill", all_dtypes(), prepare_fill);
}

}  // namespace tandem::kernels::cpu
