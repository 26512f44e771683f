/// Plain numbers beside tensors: see Tensor's constructors.
#pragma once

#include <string_view>
#include <utility>

#include "tensor/body.h"

namespace tandem::ops {

inline bool is_number(const Tensor& tensor) { return tensor.body() && tensor.body()->is_number; }

/// A number as a tensor of this dtype with the number everywhere. Throws InvalidArgument, naming
/// `op`, when the dtype does not have it.
Tensor filled(std::string_view op, const Tensor& number, DType dtype, const Shape& shape = {});

/// A number as a tensor whose dtype is its own for good, unless a tape watches it.
Tensor typed(const Tensor& tensor);

/// The operands of a call, one of which at least is a number: it has taken the dtype of the other.
std::pair<Tensor, Tensor> matched(std::string_view op, const Tensor& a, const Tensor& b);

}  // namespace tandem::ops
