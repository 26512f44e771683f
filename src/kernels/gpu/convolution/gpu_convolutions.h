/// Convolutions on a GPU: who computes them.
#pragma once

#include "kernels/convolution_shape.h"
#include "kernels/gpu/gpu_kernel.h"

namespace tandem::kernels::gpu {

/// The parameters of kernels that move a filter over images, as a word of their texts, and passed
/// to a call: channels of the image, groups, and both axes of the window.
inline constexpr const char* kWindowParameters =
    "i64 channels, i64 groups, "
    "i64 height, i64 window_y, i64 stride_y, i64 gap_y, i64 before_y, i64 result_y, "
    "i64 width, i64 window_x, i64 stride_x, i64 gap_x, i64 before_x, i64 result_x";
inline Call& pass_window(Call& call, const ConvolutionShape& s) {
  call.whole(s.in).whole(s.groups);
  for (const ops::WindowAxis& axis : s.window) {
    call.whole(axis.image).whole(axis.window).whole(axis.stride).whole(axis.dilation);
    call.whole(axis.before).whole(axis.result);
  }
  return call;
}

/// Filters that see one channel each. Null for others.
ExecutablePtr prepare_depthwise_convolution(ConvolutionPass pass, const ConvolutionShape& shape,
                                            const Device& device);

/// The library of the device's vendor, with the epilogue of fused_conv2d. Null where there is none,
/// or none for such convolutions.
ExecutablePtr prepare_library_convolution(ConvolutionPass pass, const Signature& signature,
                                          const ConvolutionShape& shape, const Device& device);

/// The patches of the image that the filter sees, as rows of a matrix, and products with it. There
/// is something to multiply.
ExecutablePtr prepare_patch_convolution(ConvolutionPass pass, const ConvolutionShape& shape,
                                        const Device& device);

}  // namespace tandem::kernels::gpu
