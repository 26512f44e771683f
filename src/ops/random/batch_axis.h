/// What the ops that draw random numbers share.
#pragma once

#include <cstdint>

#include "tandem/shape.h"

namespace tandem::ops {

/// The axis of a shape that follows the batch, and its size for each row of the batch, so that a
/// position can be counted within the global batch. An axis of -1 is none.
struct BatchAxis {
  int64_t axis = -1;
  int64_t per_row = 0;
};

BatchAxis batch_axis_of(const Shape& shape);

}  // namespace tandem::ops
