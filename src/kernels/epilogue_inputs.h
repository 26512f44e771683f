/// The operands of a product with an epilogue: what is done to its result, element by element. The
/// attribute "epilogue" of a signature says so, an expression over the result, a bias and a
/// companion, which is a value with an element for each of the result; see
/// graph/passes/fuse_epilogues.cpp.
#pragma once

#include "op/op_def.h"

namespace tandem::kernels {

/// Which inputs of a signature are the bias and the companion; -1 where there is none.
struct EpilogueInputs {
  int bias = -1;
  int companion = -1;

  static EpilogueInputs of(const op::Signature& signature) {
    EpilogueInputs inputs;
    for (size_t i = 2; i < signature.inputs.size(); ++i) {
      const bool is_companion = signature.inputs[i] == signature.outputs[0];
      (is_companion ? inputs.companion : inputs.bias) = static_cast<int>(i);
    }
    return inputs;
  }
};

}  // namespace tandem::kernels
