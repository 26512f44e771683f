/// Which variables are constrained. A variable knows nothing of Keras and an optimizer nothing of
/// layers: what was said of a weight when it was made, an optimizer finds here.
#pragma once

#include "tandem/keras/layer.h"

namespace tandem::keras {

/// The variable's constraint; an empty one where it has none.
Constraint constraint_of(const Variable& variable);

}  // namespace tandem::keras
