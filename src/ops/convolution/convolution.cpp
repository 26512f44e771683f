// The op `conv2d` and the gradients by its image and by its filter. Each of the three is linear in
// both operands, so the gradients of each are the two others. A filter of one element becomes a
// product of matrices here, before any kernel is asked.
#include "tandem/ops/convolution.h"

#include <fmt/format.h>

#include <algorithm>

#include "op/apply.h"
#include "op/registry.h"
#include "ops/convolution/window.h"
#include "ops/elementwise/fused.h"
#include "ops/shaping/broadcast.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem {
namespace ops {
namespace {

using op::Attrs;
using op::Call;
using op::Signature;

/// Attributes of all three ops: window, groups, the shapes of the image and the filter, of which an
/// op cannot see the one that it computes, and the largest share of elements of the result's
/// gradient that are not zero, which only a pass over the graph knows to be less than 1.
Attrs attrs_of(const std::array<WindowAxis, 2>& window, int64_t groups, const Shape& image,
               const Shape& filter) {
  return {{"window", attribute_of(window)},
          {"groups", groups},
          {"image", image},
          {"filter", filter},
          {"density", 1.0}};
}

op::TensorTypes infer(const Signature& s) {
  check_same_dtype(s);
  check_floating(s);
  const Shape& image = s.attrs.get<Shape>("image");
  const auto window = window_of(s.attrs);
  return {{s.inputs[0].dtype, Shape{image.extent(0), window[0].result, window[1].result,
                                    s.attrs.get<Shape>("filter")[3]}}};
}

op::TensorTypes infer_backprop_input(const Signature& s) {
  return {{s.inputs[0].dtype, s.attrs.get<Shape>("image")}};
}

op::TensorTypes infer_backprop_filter(const Signature& s) {
  return {{s.inputs[0].dtype, s.attrs.get<Shape>("filter")}};
}

/// The work is cut by images, which come first of the inputs.
op::Split split_images(const Signature& s) {
  return {.extent = s.outputs[0].shape.extent(0), .aligned = {true, false}};
}

/// The work is cut by images: the result's gradient comes second.
op::Split split_backprop_input(const Signature& s) {
  return {.extent = s.outputs[0].shape.extent(0), .aligned = {false, true}};
}

/// Threads sum over their images, meet, and then each joins a part of the filter.
op::Split split_filter(const Signature& s) {
  const Shape& filter = s.outputs[0].shape;
  return {.extent = filter.extent(0) * filter.extent(1) * filter.extent(2)};
}

double flops(const Signature& s) {
  const auto window = window_of(s.attrs);
  const Shape& filter = s.attrs.get<Shape>("filter");
  const double results = static_cast<double>(s.attrs.get<Shape>("image").extent(0)) *
                         static_cast<double>(window[0].result * window[1].result);
  return 2 * results * static_cast<double>(filter.total_extent()) * s.attrs.get<double>("density");
}

Tensor apply_conv2d(const Tensor& x, const Tensor& filter, const Attrs& attrs) {
  static const op::OpDef& def = op::find_op("conv2d");
  return op::apply_one(def, {x, filter}, attrs);
}

Tensor backprop_input(const Tensor& filter, const Tensor& g, const Attrs& attrs) {
  static const op::OpDef& def = op::find_op("conv2d_backprop_input");
  return op::apply_one(def, {filter, g}, attrs);
}

Tensor backprop_filter(const Tensor& x, const Tensor& g, const Attrs& attrs) {
  static const op::OpDef& def = op::find_op("conv2d_backprop_filter");
  return op::apply_one(def, {x, g}, attrs);
}

// A convolution is linear in the image and in the filter, and so are its derivatives: the
// derivatives of any of the three ops are the other two.
Tensors gradient(const Call& call, const Tensors& g) {
  return {call.needed[0] ? backprop_input(call.inputs[1], g[0], call.attrs) : Tensor(),
          call.needed[1] ? backprop_filter(call.inputs[0], g[0], call.attrs) : Tensor()};
}

Tensors backprop_input_gradient(const Call& call, const Tensors& g) {
  return {call.needed[0] ? backprop_filter(g[0], call.inputs[1], call.attrs) : Tensor(),
          call.needed[1] ? apply_conv2d(g[0], call.inputs[0], call.attrs) : Tensor()};
}

Tensors backprop_filter_gradient(const Call& call, const Tensors& g) {
  return {call.needed[0] ? backprop_input(g[0], call.inputs[1], call.attrs) : Tensor(),
          call.needed[1] ? apply_conv2d(call.inputs[0], g[0], call.attrs) : Tensor()};
}

void check_shapes(std::string_view op, const Shape& image, const Shape& filter) {
  if (image.rank() == 4 && filter.rank() == 4) return;
  throw InvalidArgument(
      fmt::format("{}: the image must be [batch,height,width,channels] and the filter have 4 axes, "
                  "got {} and {}",
                  op, image.str(), filter.str()));
}

void check_groups(const Shape& image, const Shape& filter, int64_t groups) {
  if (groups <= 0) {
    throw InvalidArgument(fmt::format("conv2d: groups must be positive, got {}", groups));
  }
  if (image.extent(3) != filter.extent(2) * groups || filter.extent(3) % groups != 0) {
    throw InvalidArgument(
        fmt::format("conv2d: channels do not agree, image {} and filter {} in {} group{}",
                    image.str(), filter.str(), groups, groups == 1 ? "" : "s"));
  }
}

/// A filter of one element that is laid on every element: a product of matrices.
bool is_product(const std::array<WindowAxis, 2>& window, int64_t groups) {
  const auto trivial = [](const WindowAxis& axis) {
    return axis.window == 1 && axis.stride == 1 && axis.result == axis.image && axis.before == 0;
  };
  return groups == 1 && trivial(window[0]) && trivial(window[1]);
}

}  // namespace

void register_convolution(op::Registry& registry) {
  registry.add({.name = "conv2d",
                .infer = infer,
                .split = split_images,
                .gradient = gradient,
                .flops = flops});
  registry.add(fused_product("fused_conv2d", split_images, flops));
  registry.add({.name = "conv2d_backprop_input",
                .infer = infer_backprop_input,
                .split = split_backprop_input,
                .gradient = backprop_input_gradient,
                .flops = flops});
  registry.add({.name = "conv2d_backprop_filter",
                .infer = infer_backprop_filter,
                .split = split_filter,
                .gradient = backprop_filter_gradient,
                .flops = flops});
}

}  // namespace ops

Tensor conv2d(const Tensor& x, const Tensor& filter, const Conv2dOptions& options) {
  const Shape& image = x.shape();
  const Shape& sizes = filter.shape();
  ops::check_shapes("conv2d", image, sizes);
  ops::check_groups(image, sizes, options.groups);
  const auto window = ops::window_axes(
      "conv2d", image,
      {{sizes.extent(0), sizes.extent(1)}, options.strides, options.dilations, options.padding});
  if (ops::is_product(window, options.groups)) {
    return matmul(x, reshape(filter, {sizes.extent(2), sizes.extent(3)}));
  }
  return ops::apply_conv2d(x, filter, ops::attrs_of(window, options.groups, image, sizes));
}

Tensor depthwise_conv2d(const Tensor& x, const Tensor& filter,
                        const DepthwiseConv2dOptions& options) {
  const Shape& image = x.shape();
  const Shape& sizes = filter.shape();
  ops::check_shapes("depthwise_conv2d", image, sizes);
  if (image.extent(3) != sizes.extent(2)) {
    throw InvalidArgument(
        fmt::format("depthwise_conv2d: channels do not agree, image {} and filter {}", image.str(),
                    sizes.str()));
  }
  // There are as many groups as channels, each of one channel; no channels at all are one group of
  // none.
  const int64_t channels = sizes.extent(2);
  return conv2d(
      x,
      reshape(filter, {sizes.extent(0), sizes.extent(1), std::min<int64_t>(channels, 1),
                       channels * sizes.extent(3)}),
      {options.strides, options.padding, options.dilations, std::max<int64_t>(channels, 1)});
}

}  // namespace tandem
