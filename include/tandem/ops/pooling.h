/// Windows over images [batch, height, width, channels], each reduced to one value per channel.
#pragma once

#include <array>
#include <cstdint>

#include "tandem/ops/convolution.h"
#include "tandem/tensor.h"

namespace tandem {

struct Pool2dOptions {
  std::array<int64_t, 2> window{2, 2};  ///< Height and width.
  HeightWidth strides{};  ///< Steps down and to the right; the window's size unless given.
  Padding padding = Padding::valid;
};

/// The largest value in each window, NaN if there is one; padding does not count. The gradient goes
/// to the first of equals. `x` is float32 or float64. Throws InvalidArgument when `x` does not have
/// four axes, the window does not fit, or a size or stride is not positive; also when explicit
/// padding is as wide as the window, so that a window might see nothing else.
TANDEM_API Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options = {});

/// The mean of each window, over what lies within the image: padding does not count, as in
/// TensorFlow. Otherwise as max_pool2d.
TANDEM_API Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options = {});

}  // namespace tandem
