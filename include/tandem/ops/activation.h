/// Activation functions of neural networks, element by element, for float32 and float64;
/// InvalidArgument for other dtypes. `tanh` is in elementwise.h.
#pragma once

#include "tandem/export.h"
#include "tandem/tensor.h"

namespace tandem {

TANDEM_API Tensor relu(const Tensor& x);   ///< max(x, 0); NaN stays NaN.
TANDEM_API Tensor relu6(const Tensor& x);  ///< min(max(x, 0), 6)

/// x where it is positive, else alpha x.
TANDEM_API Tensor leaky_relu(const Tensor& x, double alpha = 0.2);

/// x where it is positive, else alpha (exp(x) - 1).
TANDEM_API Tensor elu(const Tensor& x, double alpha = 1.0);

struct GeluOptions {
  bool approximate = false;  ///< gelu by tanh, as GPT-2 has it; else by the error function.
};

/// x times the normal distribution function of x.
TANDEM_API Tensor gelu(const Tensor& x, const GeluOptions& options = {});

TANDEM_API Tensor sigmoid(const Tensor& x);   ///< 1 / (1 + exp(-x))
TANDEM_API Tensor silu(const Tensor& x);      ///< x sigmoid(x), also called swish.
TANDEM_API Tensor softplus(const Tensor& x);  ///< log(1 + exp(x)), without overflow.

}  // namespace tandem
