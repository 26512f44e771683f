/// A large product whose threads take blocks of it as they get to them.
#pragma once

#include <memory>

#include "kernels/cpu/elementwise/epilogue.h"
#include "kernels/cpu/gemm/gemm.h"
#include "op/kernel.h"

namespace tandem::kernels::cpu {

/// The bias, if `inputs` names one, is added to each row of the result; then `functions` follow,
/// which may be null, with the companion. The shape is one that the provider "packed" takes.
op::ExecutablePtr make_shared_matmul(const GemmShape& shape, const EpilogueInputs& inputs,
                                     std::unique_ptr<ElementFunctions> functions, int parts);

}  // namespace tandem::kernels::cpu
