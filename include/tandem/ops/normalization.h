/// Normalisations: values shifted and scaled to mean 0 and variance 1, then by learnt `gamma` and
/// `beta`. float32 or float64; differentiable any number of times.
#pragma once

#include "tandem/tensor.h"

namespace tandem {

struct BatchNormOptions {
  double epsilon = 1e-3;  ///< Added to the variance.
};

struct BatchNorm {
  Tensor y;
  Tensor mean, variance;  ///< One of each channel; the variance is the mean square distance.
};

/// Per channel of `x` [.., channels], over all other axes:
/// y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, with the statistics of `x` itself, as
/// in training. Gradients take into account that the statistics depend on `x`. Of no rows at all,
/// mean and variance are 0. Throws InvalidArgument when `x` has fewer than two axes, or gamma or
/// beta is not [channels] of the same dtype.
TANDEM_API BatchNorm batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                                const BatchNormOptions& options = {});

/// The same with given statistics [channels], as in inference.
TANDEM_API Tensor batch_norm_inference(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                                       const Tensor& mean, const Tensor& variance,
                                       const BatchNormOptions& options = {});

struct LayerNormOptions {
  int axis = -1;  ///< The first of the axes that are normalised together, all to the last.
  double epsilon = 1e-3;
};

/// y = (x - mean) / sqrt(variance + epsilon) * gamma + beta with mean and variance over the axes
/// from `axis` to the last; `gamma` and `beta` have the sizes of those axes. Throws InvalidArgument
/// when they do not.
TANDEM_API Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                             const LayerNormOptions& options = {});

}  // namespace tandem
