/// Optimizer updates as ops: one call changes all variables of a step, over ranges of their stores.
#pragma once

#include "tandem/variable.h"

namespace tandem::ops {

struct AdamAttrs {
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  double weight_decay = 0;
};

/// Adam as Keras computes it, with alpha = rate * sqrt(1 - beta_2^t) / (1 - beta_1^t) and t =
/// iterations + 1: w -= rate weight_decay w; m += (g - m)(1 - beta_1); v += (g^2 - v)(1 - beta_2);
/// w -= alpha m / (sqrt(v) + epsilon). `iterations` (int64) and `learning_rate` (float64) are
/// scalars, read when the update runs. m and v are the slots "m" and "v" of each variable.
/// Gradients have the shapes and dtype of their variables.
void adam_update(const Tensors& gradients, const Variables& variables, const Variable& iterations,
                 const Variable& learning_rate, const AdamAttrs& attrs);

}  // namespace tandem::ops
