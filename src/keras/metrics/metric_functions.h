/// The metrics' formulas, as Keras computes them: functions from truth and predictions to whether
/// each example is right. `name` is for messages.
#pragma once

#include "tandem/keras/metrics.h"

namespace tandem::keras::metrics {

/// The one of the next three that the shapes ask for.
Metric::PerExample accuracy(const std::string& name);
Metric::PerExample binary_accuracy(const std::string& name, double threshold);
Metric::PerExample categorical_accuracy(const std::string& name);
Metric::PerExample sparse_categorical_accuracy(const std::string& name);

/// Throw InvalidArgument unless k is positive.
Metric::PerExample top_k_categorical_accuracy(const std::string& name, int k);
Metric::PerExample sparse_top_k_categorical_accuracy(const std::string& name, int k);

}  // namespace tandem::keras::metrics
