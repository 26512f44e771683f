/// The sizes of a convolution and its gradients, whatever the backend.
#pragma once

#include <array>
#include <cstdint>

#include "op/op_def.h"
#include "ops/convolution/window.h"

namespace tandem::kernels {

/// Images [images, height, width, in], a filter [height, width, in / groups, out], results
/// [images, height', width', out], one after another in memory.
struct ConvolutionShape {
  DType dtype = DType::float32;
  int64_t images = 0;
  std::array<ops::WindowAxis, 2> window;
  int64_t in = 0, out = 0, groups = 1;
  double density = 1;  ///< The largest share of the result's gradient that is not zero.

  static ConvolutionShape of(const op::Signature& signature);

  int64_t image_elements() const { return window[0].image * window[1].image * in; }
  int64_t result_elements() const { return window[0].result * window[1].result * out; }
  /// Rows of the filter seen as a matrix [.., out].
  int64_t filter_rows() const { return window[0].window * window[1].window * (in / groups); }
  int64_t filter_elements() const { return filter_rows() * out; }
};

/// What is computed from what.
enum class ConvolutionPass {
  forward,         ///< The result from image and filter.
  backprop_input,  ///< The image's gradient from filter and result's gradient.
  backprop_filter  ///< The filter's gradient from image and result's gradient.
};

inline ConvolutionShape ConvolutionShape::of(const op::Signature& signature) {
  const op::Attrs& attrs = signature.attrs;
  const Shape& image = attrs.get<Shape>("image");
  return {.dtype = signature.inputs[0].dtype,
          .images = image[0],
          .window = ops::window_of(attrs),
          .in = image[3],
          .out = attrs.get<Shape>("filter")[3],
          .groups = attrs.get<int64_t>("groups"),
          .density = attrs.get<double>("density")};
}

}  // namespace tandem::kernels
