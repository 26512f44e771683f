// Comparisons and logic, which give bools and have no gradient; and a tensor as a condition in C++.
#include <fmt/format.h>

#include "ops/elementwise/elementwise_rules.h"
#include "tandem/error.h"
#include "tandem/ops.h"
#include "tensor/body.h"

namespace tandem {
namespace ops {

void register_comparison(op::Registry& registry) {
  for (const char* name : {"equal", "not_equal"}) {
    registry.add(giving_bools(binary_op(name, kComparable)));
  }
  for (const char* name : {"less", "less_equal", "greater", "greater_equal"}) {
    registry.add(giving_bools(binary_op(name, kNumbers)));
  }
  for (const char* name : {"logical_and", "logical_or", "logical_xor"}) {
    registry.add(binary_op(name, kBoolean));
  }
  registry.add(unary_op("logical_not", kBoolean));
  for (const char* name : {"is_nan", "is_inf", "is_finite"}) {
    registry.add(giving_bools(unary_op(name, kFloating)));
  }
}

}  // namespace ops

using ops::call;

Tensor equal(const Tensor& a, const Tensor& b) { return call<"equal">(a, b); }
Tensor not_equal(const Tensor& a, const Tensor& b) { return call<"not_equal">(a, b); }
Tensor less(const Tensor& a, const Tensor& b) { return call<"less">(a, b); }
Tensor less_equal(const Tensor& a, const Tensor& b) { return call<"less_equal">(a, b); }
Tensor greater(const Tensor& a, const Tensor& b) { return call<"greater">(a, b); }
Tensor greater_equal(const Tensor& a, const Tensor& b) { return call<"greater_equal">(a, b); }
Tensor logical_and(const Tensor& a, const Tensor& b) { return call<"logical_and">(a, b); }
Tensor logical_or(const Tensor& a, const Tensor& b) { return call<"logical_or">(a, b); }
Tensor logical_xor(const Tensor& a, const Tensor& b) { return call<"logical_xor">(a, b); }
Tensor logical_not(const Tensor& x) { return call<"logical_not">(x); }
Tensor is_nan(const Tensor& x) { return call<"is_nan">(x); }
Tensor is_inf(const Tensor& x) { return call<"is_inf">(x); }
Tensor is_finite(const Tensor& x) { return call<"is_finite">(x); }

Tensor::operator bool() const {
  check_has_value(checked(), "bool");
  if (shape().count() != 1) {
    throw InvalidArgument(
        fmt::format("bool: {} is not one element, so it is neither true nor false; reduce_all "
                    "and reduce_any make one of many",
                    type_of(*this).str()));
  }
  return cast(*this, DType::boolean).item<bool>();
}

}  // namespace tandem
