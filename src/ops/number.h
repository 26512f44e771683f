/// Plain numbers beside tensors: see Tensor's constructors.
#pragma once

#include <string_view>
#include <utility>

#include "tandem/tensor.h"

namespace tandem::ops {

bool is_number(const Tensor& tensor);

/// A number as a tensor of this dtype with the number everywhere. Throws InvalidArgument, naming
/// `op`, when the dtype does not have it.
Tensor filled(std::string_view op, const Tensor& number, DType dtype, const Shape& shape = {});

/// A number as a tensor whose dtype is its own for good, unless a tape watches it.
Tensor typed(const Tensor& tensor);

/// The operands of a call, in which a number has taken the dtype of the other side.
std::pair<Tensor, Tensor> matched(std::string_view op, const Tensor& a, const Tensor& b);

}  // namespace tandem::ops
