/// The small classifier 784-10-10 as a Keras model: for `fit` alone and while another process
/// spins.
#pragma once

#include "tandem/keras/model.h"

namespace tandem::bench {

/// The model, compiled in the scope of the current strategy, with the weights that all frameworks
/// begin with.
keras::Sequential seed_classifier();

/// The mean loss of `fit` over the first batches in order, which is the same for all frameworks.
double first_loss(const keras::Model& model, const Tensor& x, const Tensor& y);

}  // namespace tandem::bench
