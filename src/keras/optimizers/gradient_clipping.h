/// Gradients kept from growing too large, written with ops.
#pragma once

#include <optional>

#include "tandem/tensor.h"

namespace tandem::keras::optimizers {

/// The limit of gradients; at most one is set.
struct Clipping {
  std::optional<double> norm{};         ///< The norm of each gradient.
  std::optional<double> value{};        ///< The size of each element.
  std::optional<double> global_norm{};  ///< The norm of all gradients together.
};

/// Throws InvalidArgument as Optimizer does.
void check(const Clipping& clipping, const char* optimizer);

/// Gradients have all their rows. Where a norm is not finite, what is scaled by it has NaNs.
Tensors clipped(const Tensors& gradients, const Clipping& clipping);

}  // namespace tandem::keras::optimizers
