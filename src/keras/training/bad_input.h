/// What fit and evaluate check of arrays before the first step.
#pragma once

#include <map>

#include "keras/training/trainer.h"

namespace tandem::keras {

/// The number of inputs and truths, the inputs' shapes, and, where a loss takes classes, that each
/// label is one; the classes that `class_weight` names. Makes the weights of a model that has none
/// yet, and runs no layer. Throws InvalidArgument naming the argument and what is accepted, after
/// `who`.
void check_arrays(const char* who, const Layer& model, const Trainer& trainer, const Tensors& x,
                  const Tensors& y, const std::map<int64_t, double>& class_weight = {});

}  // namespace tandem::keras
