/// Models and optimizers by the names that model_checkpoints.py has for the same ones of Keras.
#pragma once

#include <string>

#include "tandem/tandem.h"

namespace tandem::interop {

/// Throws NotFound for a name that is not known.
keras::Model make_model(const std::string& kind);
keras::optimizers::Optimizer make_optimizer(const std::string& kind);

}  // namespace tandem::interop
