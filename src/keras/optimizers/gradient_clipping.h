/// Gradients kept from growing too large, written with ops.
#pragma once

#include <optional>
#include <vector>

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
/// `parts` says of each gradient of how many parts it is this replica's one, whose norm is that of
/// all; none where all are whole.
Tensors clipped(const Tensors& gradients, const Clipping& clipping,
                const std::vector<int>& parts = {});

}  // namespace tandem::keras::optimizers
