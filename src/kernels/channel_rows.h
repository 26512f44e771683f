/// Tensors of which the last axis holds channels.
#pragma once

#include <cstdint>

#include "tandem/shape.h"

namespace tandem::kernels {

/// A tensor [.., channels] seen as rows of channels.
struct ChannelRows {
  explicit ChannelRows(const Shape& shape) : channels(shape[shape.rank() - 1]) {
    for (int axis = 0; axis + 1 < shape.rank(); ++axis) rows *= shape[axis];
  }

  int64_t channels;
  int64_t rows = 1;
};

}  // namespace tandem::kernels
