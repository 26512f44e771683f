/// The losses' formulas, as Keras computes them: functions from truth and predictions to the losses
/// of the examples. `name` is for messages.
#pragma once

#include <string>
#include <vector>

#include "tandem/keras/losses.h"

namespace tandem::keras::losses {

/// All names that a Loss is found by.
std::vector<std::string> known_names();

/// Throw InvalidArgument when the smoothing is not in [0, 1].
Loss::PerExample categorical_crossentropy(const std::string& name, bool from_logits,
                                          double label_smoothing);
Loss::PerExample binary_crossentropy(const std::string& name, bool from_logits,
                                     double label_smoothing);

Loss::PerExample sparse_categorical_crossentropy(const std::string& name, bool from_logits);
Loss::PerExample mean_squared_error(const std::string& name);
Loss::PerExample mean_absolute_error(const std::string& name);

/// Throws InvalidArgument unless delta is positive.
Loss::PerExample huber(const std::string& name, double delta);

}  // namespace tandem::keras::losses
