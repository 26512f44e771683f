/// The ops of elementwise.h as operators, between tensors, variables and numbers. Numbers have any
/// arithmetic type and take the dtype of the tensor beside them (tensor.h). `a && b`, `a || b` and
/// `!a` are not among them: they read the values, which `a & b`, `a | b` and `~a` do not.
#pragma once

#include "tandem/ops/elementwise.h"
#include "tandem/variable.h"

namespace tandem {

inline Tensor operator-(const Tensor& x) { return neg(x); }
inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator%(const Tensor& a, const Tensor& b) { return mod(a, b); }

/// Sizes are numbers, too: `reduce_sum(x) / x.shape()[0]`.
template <std::same_as<Size> S>
Tensor operator+(const Tensor& a, S b) {
  return a + int64_t{b};
}
template <std::same_as<Size> S>
Tensor operator-(const Tensor& a, S b) {
  return a - int64_t{b};
}
template <std::same_as<Size> S>
Tensor operator*(const Tensor& a, S b) {
  return a * int64_t{b};
}
template <std::same_as<Size> S>
Tensor operator/(const Tensor& a, S b) {
  return a / int64_t{b};
}

/// Element by element, as bools. `if (a == b)` reads the only element: see Tensor::operator bool.
inline Tensor operator==(const Tensor& a, const Tensor& b) { return equal(a, b); }
inline Tensor operator!=(const Tensor& a, const Tensor& b) { return not_equal(a, b); }
inline Tensor operator<(const Tensor& a, const Tensor& b) { return less(a, b); }
inline Tensor operator<=(const Tensor& a, const Tensor& b) { return less_equal(a, b); }
inline Tensor operator>(const Tensor& a, const Tensor& b) { return greater(a, b); }
inline Tensor operator>=(const Tensor& a, const Tensor& b) { return greater_equal(a, b); }

/// The operands are bools.
inline Tensor operator&(const Tensor& a, const Tensor& b) { return logical_and(a, b); }
inline Tensor operator|(const Tensor& a, const Tensor& b) { return logical_or(a, b); }
inline Tensor operator^(const Tensor& a, const Tensor& b) { return logical_xor(a, b); }
inline Tensor operator~(const Tensor& x) { return logical_not(x); }

/// The handle names a new tensor afterwards; other copies of it keep the old one.
inline Tensor& operator+=(Tensor& a, const Tensor& b) { return a = a + b; }
inline Tensor& operator-=(Tensor& a, const Tensor& b) { return a = a - b; }
inline Tensor& operator*=(Tensor& a, const Tensor& b) { return a = a * b; }
inline Tensor& operator/=(Tensor& a, const Tensor& b) { return a = a / b; }

/// The variable's value changes, as by assign_add, assign_sub and assign.
inline const Variable& operator+=(const Variable& a, const Tensor& b) {
  a.assign_add(b);
  return a;
}
inline const Variable& operator-=(const Variable& a, const Tensor& b) {
  a.assign_sub(b);
  return a;
}
inline const Variable& operator*=(const Variable& a, const Tensor& b) {
  a.assign(a * b);
  return a;
}
inline const Variable& operator/=(const Variable& a, const Tensor& b) {
  a.assign(a / b);
  return a;
}

}  // namespace tandem
