/// Arithmetic, functions, comparisons and choices, element by element, with broadcasting as in
/// NumPy. Tensors of one call have one dtype: nothing is promoted silently, and InvalidArgument
/// names the op and what it accepts. Plain numbers take that dtype, as in `pow(x, 2)` (tensor.h).
/// Numbers subnormal in their dtype count as zero.
#pragma once

#include "tandem/export.h"
#include "tandem/tensor.h"

namespace tandem {

// ---- Arithmetic: float32, float64, int32, int64, uint8. Whole numbers wrap round. ----

TANDEM_API Tensor add(const Tensor& a, const Tensor& b);
TANDEM_API Tensor sub(const Tensor& a, const Tensor& b);
TANDEM_API Tensor mul(const Tensor& a, const Tensor& b);

/// Floating types only; whole numbers are divided by floor_div.
TANDEM_API Tensor div(const Tensor& a, const Tensor& b);

/// a / b rounded towards minus infinity; a whole number divided by zero gives 0. No gradient.
TANDEM_API Tensor floor_div(const Tensor& a, const Tensor& b);

/// The remainder of floor_div, which has the sign of b; of a whole number by zero, 0.
TANDEM_API Tensor mod(const Tensor& a, const Tensor& b);

/// Floating types, int32 and int64. Anything to the power of 0 is 1, NaN too. A whole number to a
/// negative power is rounded towards zero; 0 to a negative power is then 0. The gradient by b is 0
/// where a is not positive.
TANDEM_API Tensor pow(const Tensor& a, const Tensor& b);

/// NaN if either is. The gradient of equals goes to `a`.
TANDEM_API Tensor maximum(const Tensor& a, const Tensor& b);
TANDEM_API Tensor minimum(const Tensor& a, const Tensor& b);

/// (a - b)^2
TANDEM_API Tensor squared_difference(const Tensor& a, const Tensor& b);

/// The same for numbers of either sign: float32, float64, int32, int64.
TANDEM_API Tensor neg(const Tensor& x);
TANDEM_API Tensor abs(const Tensor& x);   ///< The gradient at 0 is 0.
TANDEM_API Tensor sign(const Tensor& x);  ///< -1, 0 or 1; NaN of NaN. No gradient.
TANDEM_API Tensor square(const Tensor& x);

// ---- Functions: float32 and float64. Outside of their domain they are NaN. ----

TANDEM_API Tensor reciprocal(const Tensor& x);
TANDEM_API Tensor sqrt(const Tensor& x);
TANDEM_API Tensor rsqrt(const Tensor& x);  ///< 1 / sqrt(x)

/// They round to whole numbers; `round` takes halves to the even neighbour. No gradients.
TANDEM_API Tensor floor(const Tensor& x);
TANDEM_API Tensor ceil(const Tensor& x);
TANDEM_API Tensor round(const Tensor& x);

TANDEM_API Tensor exp(const Tensor& x);
TANDEM_API Tensor expm1(const Tensor& x);  ///< exp(x) - 1, exact near 0.
TANDEM_API Tensor log(const Tensor& x);
TANDEM_API Tensor log1p(const Tensor& x);  ///< log(1 + x), exact near 0.
TANDEM_API Tensor sin(const Tensor& x);
TANDEM_API Tensor cos(const Tensor& x);
TANDEM_API Tensor tan(const Tensor& x);
TANDEM_API Tensor asin(const Tensor& x);
TANDEM_API Tensor acos(const Tensor& x);
TANDEM_API Tensor atan(const Tensor& x);
TANDEM_API Tensor sinh(const Tensor& x);
TANDEM_API Tensor cosh(const Tensor& x);
TANDEM_API Tensor tanh(const Tensor& x);
TANDEM_API Tensor erf(const Tensor& x);

// ---- Comparisons and logic: bool results, no gradients. ----

/// Float32, float64, int32, int64, uint8, bool. NaN equals nothing.
TANDEM_API Tensor equal(const Tensor& a, const Tensor& b);
TANDEM_API Tensor not_equal(const Tensor& a, const Tensor& b);

/// Float32, float64, int32, int64, uint8.
TANDEM_API Tensor less(const Tensor& a, const Tensor& b);
TANDEM_API Tensor less_equal(const Tensor& a, const Tensor& b);
TANDEM_API Tensor greater(const Tensor& a, const Tensor& b);
TANDEM_API Tensor greater_equal(const Tensor& a, const Tensor& b);

/// Both operands are bools.
TANDEM_API Tensor logical_and(const Tensor& a, const Tensor& b);
TANDEM_API Tensor logical_or(const Tensor& a, const Tensor& b);
TANDEM_API Tensor logical_xor(const Tensor& a, const Tensor& b);
TANDEM_API Tensor logical_not(const Tensor& x);

/// The operand is float32 or float64.
TANDEM_API Tensor is_nan(const Tensor& x);
TANDEM_API Tensor is_inf(const Tensor& x);
TANDEM_API Tensor is_finite(const Tensor& x);

// ---- Choices ----

/// Elements of `a` where `condition` (bool) is true, else of `b`; all three broadcast, `a` and `b`
/// have any one dtype. The gradient of the side not chosen is zero, even where it is not finite.
TANDEM_API Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);

/// `x` limited to [low, high]: float32, float64, int32, int64; limits of whole numbers are rounded
/// inwards. NaN stays NaN. The gradient is zero outside. Throws InvalidArgument unless low <= high.
TANDEM_API Tensor clip(const Tensor& x, double low, double high);

/// A scalar of the tensor's dtype. Throws InvalidArgument for a value that the dtype does not have.
TANDEM_API Tensor scalar_like(double value, const Tensor& tensor);

}  // namespace tandem
