/// Ops that passes over graphs make of several calls. Nobody calls them, so they have no function,
/// and they come after differentiation.
#pragma once

#include "op/op_def.h"

namespace tandem::ops {

/// A product, or its like, that does to its result what the attribute "epilogue" says: an
/// expression of the result and of further inputs, of a bias for each row and of a companion, a
/// value of the result's own type, in this order where there are both.
op::OpDef fused_product(std::string name, std::function<op::Split(const op::Signature&)> split,
                        std::function<double(const op::Signature&)> flops);

}  // namespace tandem::ops
