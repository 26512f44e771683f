/// The cross-entropy of scores of which each replica along a mesh's axis of the model has some of
/// the classes. None of them ever has all scores: per example the replicas tell each other the
/// largest score, a sum of exponentials and the score of the true class.
#pragma once

#include "tandem/tensor.h"

namespace tandem::keras::losses {

/// `classes` [..] are whole numbers, `scores` [.., classes of this replica].
Tensor sparse_crossentropy_of_parts(const Tensor& classes, const Tensor& scores);

}  // namespace tandem::keras::losses
