/// Elements chosen by the values of another tensor. Any thread may call them.
#pragma once

#include <cstdint>

#include "tandem/tensor.h"

namespace tandem {

/// The parts of `x`, of any dtype, at the places along `axis` that `indices` (int32 or int64) name;
/// the axes of `indices` stand in the place of that axis. Throws InvalidArgument naming the index,
/// the axis and its size when one is negative or too large; where the op runs late, that is thrown
/// when the result is waited for. A place named several times gets the sum of the gradients.
TANDEM_API Tensor gather(const Tensor& x, const Tensor& indices, int axis = 0);

struct OneHotOptions {
  double on = 1;
  double off = 0;
  DType dtype = DType::float32;
};

/// A new last axis of `depth` elements: `on` at the place that the index (int32 or int64) names,
/// `off` elsewhere; all `off` for an index that is out of range. No gradient.
TANDEM_API Tensor one_hot(const Tensor& indices, int64_t depth, const OneHotOptions& options = {});

}  // namespace tandem
