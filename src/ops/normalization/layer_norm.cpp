// Layer normalisation. Its gradients are ops of their own, one by the input and one by gamma and
// beta; their gradients in turn are composed of other ops.
#include <fmt/format.h>

#include <numeric>

#include "op/apply.h"
#include "op/registry.h"
#include "ops/shaping/broadcast.h"
#include "ops/shaping/exact_shape.h"
#include "tandem/error.h"
#include "tandem/ops.h"
#include "tandem/ops/normalization.h"

namespace tandem {
namespace ops {
namespace {

using op::Attrs;
using op::Call;
using op::Signature;

// Attribute "axis" of all ops: axes before it count lines, the others make up a line.

Shape lines_of(const Shape& shape, int axis) {
  return Shape(shape.extents().first(static_cast<size_t>(axis)));
}

Shape line_of(const Shape& shape, int axis) {
  return Shape(shape.extents().subspan(static_cast<size_t>(axis)));
}

int axis_of(const Attrs& attrs) { return static_cast<int>(attrs.get<int64_t>("axis")); }

/// The result, and mean and inverse deviation of each line for the gradients.
op::TensorTypes infer(const Signature& s) {
  const op::TensorType& x = s.inputs[0];
  const op::TensorType statistics{x.dtype, lines_of(x.shape, axis_of(s.attrs))};
  return {x, statistics, statistics};
}

op::TensorTypes infer_grad(const Signature& s) { return {s.inputs[0]}; }

op::TensorTypes infer_parameters(const Signature& s) {
  const op::TensorType& g = s.inputs[0];
  const op::TensorType parameter{g.dtype, line_of(g.shape, axis_of(s.attrs))};
  return {parameter, parameter};
}

/// The work is cut by lines; gamma and beta are read by all.
op::Split split_lines(const Signature& s) {
  const int axis = axis_of(s.attrs);
  op::Split split{.extent = lines_of(s.inputs[0].shape, axis).total_extent()};
  const size_t parameters = s.op->name == "layer_norm" ? 2 : 1;
  for (size_t i = 0; i < s.inputs.size(); ++i) {
    split.aligned.push_back(i + parameters < s.inputs.size());
  }
  return split;
}

/// Threads sum over their lines, meet, and then each joins some elements.
op::Split split_parameters(const Signature& s) {
  return {.extent = s.outputs[0].shape.total_extent()};
}

double flops(const Signature& s) {
  return 8 * static_cast<double>(s.inputs[0].shape.total_extent());
}

/// A value per line, with axes of one element in place of the line's.
Tensor column(const Tensor& per_line, int rank) {
  Shape shape = per_line.shape();
  while (shape.rank() < rank) shape = shape.inserted(shape.rank(), 1);
  return with_shape(per_line, shape);
}

ReduceOptions along_lines(const Tensor& x, int axis, bool keepdims) {
  std::vector<int> axes;
  for (int i = axis; i < x.rank(); ++i) axes.push_back(i);
  return {.axes = axes, .keepdims = keepdims};
}

ReduceOptions over_lines(int axis) {
  std::vector<int> axes(static_cast<size_t>(axis));
  std::iota(axes.begin(), axes.end(), 0);
  return {.axes = axes};
}

/// inverse (v - mean of v - n (mean of v n)) with v = g gamma, n = (x - mean) inverse.
Tensor grad(const Tensor& g, const Tensor& x, const Tensor& mean, const Tensor& inverse,
            const Tensor& gamma, const Attrs& attrs) {
  static const op::OpDef& def = op::find_op("layer_norm_grad");
  return op::apply_one(def, {g, x, mean, inverse, gamma}, attrs);
}

Tensors gradient(const Call& call, const Tensors& g) {
  static const op::OpDef& parameters = op::find_op("layer_norm_parameter_grad");
  const Tensor& x = call.inputs[0];
  const Tensor& mean = call.outputs[1];
  const Tensor& inverse = call.outputs[2];
  const int axis = axis_of(call.attrs);
  Tensors result(3);
  if (call.needed[0]) {
    result[0] = grad(g[0], x, mean, inverse, call.inputs[1], call.attrs);
    const double count = 1.0 / static_cast<double>(line_of(x.shape(), axis).total_extent());
    if (g[1].defined()) {
      result[0] = result[0] + column(g[1] * count, x.rank());
    }
    if (g[2].defined()) {
      const Tensor slope = g[2] * inverse * inverse * inverse * -count;
      result[0] = result[0] + column(slope, x.rank()) * (x - column(mean, x.rank()));
    }
  }
  if (call.needed[1] || call.needed[2]) {
    const Tensors sums = op::apply(parameters, {g[0], x, mean, inverse}, call.attrs);
    result[1] = sums[0];
    result[2] = sums[1];
  }
  return result;
}

/// The gradient of grad() above, which is symmetric in v.
Tensors grad_gradient(const Call& call, const Tensors& h) {
  const Tensor& g = call.inputs[0];
  const Tensor& x = call.inputs[1];
  const Tensor& gamma = call.inputs[4];
  const int axis = axis_of(call.attrs);
  const auto line_mean = [&](const Tensor& t) {
    return reduce_mean(t, along_lines(x, axis, true));
  };
  const auto line_sum = [&](const Tensor& t) { return reduce_sum(t, along_lines(x, axis, false)); };
  const Tensor inverse = column(call.inputs[3], x.rank());
  const Tensor centred = x - column(call.inputs[2], x.rank());
  const Tensor n = centred * inverse;
  const Tensor v = g * gamma;
  const Tensor ones = fill(gamma.shape(), 1.0, gamma.dtype());
  const Tensor by_v = grad(h[0], x, call.inputs[2], call.inputs[3], ones, call.attrs);
  const Tensor by_n = (h[0] * line_mean(v * n) + v * line_mean(h[0] * n)) * inverse * -1.0;
  const Tensor by_centred = by_n * inverse;
  Tensors result(5);
  if (call.needed[0]) result[0] = by_v * gamma;
  if (call.needed[1]) result[1] = by_centred;
  if (call.needed[2]) result[2] = line_sum(by_centred) * -1.0;
  if (call.needed[3]) {
    const Tensor brackets = v - line_mean(v) - n * line_mean(v * n);
    result[3] = line_sum(h[0] * brackets + by_n * centred);
  }
  if (call.needed[4]) result[4] = reduce_sum(by_v * g, over_lines(axis));
  return result;
}

/// The gradient of the sums over lines of g n and of g.
Tensors parameter_gradient(const Call& call, const Tensors& h) {
  const Tensor& g = call.inputs[0];
  const Tensor& x = call.inputs[1];
  const int axis = axis_of(call.attrs);
  const auto line_sum = [&](const Tensor& t) { return reduce_sum(t, along_lines(x, axis, false)); };
  const Tensor inverse = column(call.inputs[3], x.rank());
  const Tensor centred = x - column(call.inputs[2], x.rank());
  const Tensor by_n = g * h[0];
  const Tensor by_centred = by_n * inverse;
  Tensors result(4);
  if (call.needed[0]) {
    result[0] = centred * inverse * h[0];
    if (h[1].defined()) result[0] = result[0] + h[1];
  }
  if (call.needed[1]) result[1] = by_centred;
  if (call.needed[2]) result[2] = line_sum(by_centred) * -1.0;
  if (call.needed[3]) result[3] = line_sum(by_n * centred);
  return result;
}

void check(const Tensor& x, int axis, const char* name, const Tensor& parameter) {
  const Shape line = line_of(x.shape(), axis);
  if (line.is_symbolic()) {
    throw InvalidArgument(
        fmt::format("layer_norm: the axes of {} from {} on must not depend on the number of rows",
                    x.shape().str(), axis));
  }
  const TensorType wanted{x.dtype(), line};
  if (type_of(parameter) == wanted) return;
  throw InvalidArgument(fmt::format("layer_norm: {} must be {} for x {}, got {}", name,
                                    wanted.str(), x.shape().str(), type_of(parameter).str()));
}

}  // namespace

void register_layer_norm(op::Registry& registry) {
  registry.add({.name = "layer_norm",
                .infer = infer,
                .split = split_lines,
                .gradient = gradient,
                .flops = flops});
  registry.add({.name = "layer_norm_grad",
                .infer = infer_grad,
                .split = split_lines,
                .gradient = grad_gradient,
                .flops = flops});
  registry.add({.name = "layer_norm_parameter_grad",
                .infer = infer_parameters,
                .split = split_parameters,
                .gradient = parameter_gradient,
                .flops = flops});
}

}  // namespace ops

Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const LayerNormOptions& options) {
  static const op::OpDef& def = op::find_op("layer_norm");
  if (x.dtype() != DType::float32 && x.dtype() != DType::float64) {
    throw InvalidArgument(fmt::format("layer_norm: {} is not supported; float32 and float64 are",
                                      name_of(x.dtype())));
  }
  const int axis = ops::normalized_axis("layer_norm", options.axis, x.shape());
  ops::check(x, axis, "gamma", gamma);
  ops::check(x, axis, "beta", beta);
  return op::apply(def, {x, gamma, beta},
                   {{"axis", int64_t{axis}}, {"epsilon", options.epsilon}})[0];
}

}  // namespace tandem
