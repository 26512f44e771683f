/// Windows that move over images: what convolution and pooling have in common.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "op/attrs.h"
#include "tandem/ops/convolution.h"
#include "tandem/shape.h"

namespace tandem::ops {

/// One axis of a window: which elements of the image each element of the result sees.
struct WindowAxis {
  int64_t image = 0;
  int64_t window = 0;  ///< Elements of the window.
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t before = 0, after = 0;  ///< Padding.
  int64_t result = 0;

  /// The place where the window of result `r` begins in the image; negative in the padding.
  int64_t start(int64_t r) const { return r * stride - before; }
};

/// The attributes of an op with a window: what the user asked for.
struct WindowOptions {
  std::array<int64_t, 2> window;
  std::array<int64_t, 2> strides;
  std::array<int64_t, 2> dilations;
  Padding padding;
};

/// Both axes over an image [batch, height, width, channels]. Throws InvalidArgument naming `op`.
std::array<WindowAxis, 2> window_axes(std::string_view op, const Shape& image,
                                      const WindowOptions& options);

/// The window as an attribute, and back. It is the same for any batch: only the batch may be
/// symbolic.
std::vector<int64_t> attribute_of(const std::array<WindowAxis, 2>& axes);
std::array<WindowAxis, 2> window_of(const op::Attrs& attrs);

}  // namespace tandem::ops
