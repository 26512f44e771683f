/// Optimizer updates as ops: one call changes all variables of a step, over ranges of their stores.
#pragma once

#include <vector>

#include "op/attrs.h"
#include "tandem/variable.h"

namespace tandem::ops {

/// One of the ops below with its constants. With g the gradient, w the variable, the other letters
/// its slots in this order, and t the number of the update from 1 on:
///
///   sgd_update       w -= rate g; with `momentum` m = momentum m - rate g, w += m; with `nesterov`
///                    w += momentum m - rate g
///   rmsprop_update   v = rho v + (1 - rho) g^2; u = rate g / sqrt(v + epsilon); w -= u; with
///                    `momentum` m = momentum m + u, w -= m; with `centered` a = rho a + (1 - rho)
///                    g, and v - a^2 in place of v. Slots v, m, a.
///   adagrad_update   a += g^2; w -= rate g / sqrt(a + epsilon)
///   adam_update      m += (g - m)(1 - beta_1); v += (g^2 - v)(1 - beta_2); w -= alpha m / (sqrt(v)
///                    + epsilon), alpha = rate sqrt(1 - beta_2^t) / (1 - beta_1^t); with `amsgrad`
///                    h = max(h, v) in place of v. Slots m, v, h.
///
/// all after w -= rate `weight_decay` w. They act in each `every`-th step only and leave everything
/// as it is in the others.
///
///   accumulate_update   w += g, but w = 0 in each `every`-th step
///
/// Where the condition is false nothing changes.
struct UpdateRule {
  const char* op;
  op::Attrs attrs;
};

/// Gradients and slots have the shapes of their variables, and all one dtype; all variables are in
/// one memory space.
struct UpdateOperands {
  Tensors gradients;
  Variables variables;
  std::vector<Variables> slots{};  ///< The slots of each variable; empty where there are none.
  Tensor rate;                     ///< A float64 scalar.
  Tensor step;                     ///< An int64 scalar: the number of steps before this one.
  Tensor condition;                ///< A boolean scalar: whether anything is to change.
};

void apply_update(const UpdateRule& rule, const UpdateOperands& operands);

}  // namespace tandem::ops
