/// A large product whose threads take blocks of it as they get to them.
#pragma once

#include <memory>

#include "kernels/cpu/epilogue.h"
#include "kernels/cpu/gemm.h"
#include "op/kernel.h"

namespace tandem::kernels::cpu {

/// With `adds_bias` the third input is added to each row of the result; then `functions` follow,
/// which may be null. The shape is one that the provider "packed" takes.
op::ExecutablePtr make_shared_matmul(const GemmShape& shape, bool adds_bias,
                                     std::unique_ptr<ElementFunctions> functions, int parts);

}  // namespace tandem::kernels::cpu
