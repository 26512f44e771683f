// Max and average pooling. The gradient of a max goes to the place of each window's largest
// element; its own gradient picks from these places, and so the three ops of max pooling are closed
// under differentiation.
#include "tandem/ops/pooling.h"

#include <fmt/format.h>

#include "op/apply.h"
#include "op/registry.h"
#include "ops/convolution/window.h"
#include "ops/shaping/broadcast.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem {
namespace ops {
namespace {

using op::Attrs;
using op::Call;
using op::Signature;

op::TensorTypes infer_pool(const Signature& s) {
  check_floating(s);
  const Shape& image = s.attrs.get<Shape>("image");
  const auto window = window_of(s.attrs);
  return {{s.inputs[0].dtype, Shape{image[0], window[0].result, window[1].result, image[3]}}};
}

op::TensorTypes infer_image(const Signature& s) {
  return {{s.inputs[0].dtype, s.attrs.get<Shape>("image")}};
}

/// The work is cut by images: windows of one image may overlap, those of two never do.
op::Split split(const Signature& s) {
  return {.extent = s.outputs[0].shape.extent(0),
          .aligned = std::vector<bool>(s.inputs.size(), true)};
}

double flops(const Signature& s) {
  const auto window = window_of(s.attrs);
  const Shape& image = s.attrs.get<Shape>("image");
  return static_cast<double>(image.extent(0) * image.extent(3)) *
         static_cast<double>(window[0].result * window[1].result) *
         static_cast<double>(window[0].window * window[1].window);
}

/// max_pool2d_grad(x, y, g): `g` at the place of each largest element.
Tensor max_grad(const Tensor& x, const Tensor& y, const Tensor& g, const Attrs& attrs) {
  static const op::OpDef& def = op::find_op("max_pool2d_grad");
  return op::apply_one(def, {x, y, g}, attrs);
}

/// max_pool2d_pick(x, y, h): what `h` has at the place of each largest element.
Tensor max_pick(const Tensor& x, const Tensor& y, const Tensor& h, const Attrs& attrs) {
  static const op::OpDef& def = op::find_op("max_pool2d_pick");
  return op::apply_one(def, {x, y, h}, attrs);
}

Tensors max_gradient(const Call& call, const Tensors& g) {
  return {max_grad(call.inputs[0], call.outputs[0], g[0], call.attrs)};
}

// Both are linear in their last input, and each is the other's derivative; where the largest
// element is does not change with the values.
Tensors max_grad_gradient(const Call& call, const Tensors& g) {
  return {Tensor(), Tensor(), max_pick(call.inputs[0], call.inputs[1], g[0], call.attrs)};
}

Tensors max_pick_gradient(const Call& call, const Tensors& g) {
  return {Tensor(), Tensor(), max_grad(call.inputs[0], call.inputs[1], g[0], call.attrs)};
}

Tensor apply_avg(std::string_view name, const Tensor& x, const Attrs& attrs) {
  static const op::OpDef& pool = op::find_op("avg_pool2d");
  static const op::OpDef& grad = op::find_op("avg_pool2d_grad");
  return op::apply_one(name == "avg_pool2d" ? pool : grad, {x}, attrs);
}

Tensors avg_gradient(const Call& call, const Tensors& g) {
  return {apply_avg("avg_pool2d_grad", g[0], call.attrs)};
}

Tensors avg_grad_gradient(const Call& call, const Tensors& g) {
  return {apply_avg("avg_pool2d", g[0], call.attrs)};
}

Attrs attrs_of(std::string_view op, const Shape& image, const Pool2dOptions& options) {
  if (image.rank() != 4) {
    throw InvalidArgument(fmt::format("{}: the image must be [batch,height,width,channels], got {}",
                                      op, image.str()));
  }
  const auto window = window_axes(
      op, image,
      {options.window, options.strides.value_or(options.window), {1, 1}, options.padding});
  for (const WindowAxis& axis : window) {
    if (axis.before < axis.window && axis.after < axis.window) continue;
    throw InvalidArgument(fmt::format("{}: padding of {} and {} leaves windows of {} empty", op,
                                      axis.before, axis.after, axis.window));
  }
  return {{"window", attribute_of(window)}, {"image", image}};
}

}  // namespace

void register_pooling(op::Registry& registry) {
  const auto add = [&](const char* name, auto infer, auto gradient) {
    registry.add(
        {.name = name, .infer = infer, .split = split, .gradient = gradient, .flops = flops});
  };
  add("max_pool2d", infer_pool, max_gradient);
  add("max_pool2d_grad", infer_image, max_grad_gradient);
  add("max_pool2d_pick", infer_pool, max_pick_gradient);
  add("avg_pool2d", infer_pool, avg_gradient);
  add("avg_pool2d_grad", infer_image, avg_grad_gradient);
}

}  // namespace ops

Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options) {
  static const op::OpDef& def = op::find_op("max_pool2d");
  return op::apply_one(def, {x}, ops::attrs_of("max_pool2d", x.shape(), options));
}

Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options) {
  return ops::apply_avg("avg_pool2d", x, ops::attrs_of("avg_pool2d", x.shape(), options));
}

}  // namespace tandem
