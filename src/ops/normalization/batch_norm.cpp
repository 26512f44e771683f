// Statistics and normalisation are ops of their own, forward and backward: replicas that normalise
// together meet between the two.
#include <fmt/format.h>

#include <numeric>

#include "op/apply.h"
#include "op/registry.h"
#include "ops/reduction/reduction_rules.h"
#include "ops/shaping/broadcast.h"
#include "tandem/error.h"
#include "tandem/ops.h"
#include "tandem/ops/normalization.h"

namespace tandem {
namespace ops {
namespace {

using op::Call;
using op::Signature;

op::TensorType per_channel(const op::TensorType& x) {
  return {x.dtype, Shape{x.shape.extent(x.shape.rank() - 1)}};
}

op::TensorTypes infer_two_per_channel(const Signature& s) {
  return {per_channel(s.inputs[0]), per_channel(s.inputs[0])};
}

op::TensorTypes infer_as_first(const Signature& s) { return {s.inputs[0]}; }

/// Threads sum over their rows, meet, and then each joins some channels.
op::Split split_channels(const Signature& s) { return {.extent = s.outputs[0].shape.extent(0)}; }

/// The work is cut by the leading axis; what has one value per channel is read by all.
op::Split split_images(const Signature& s) {
  op::Split split{.extent = s.outputs[0].shape.extent(0)};
  for (const op::TensorType& input : s.inputs) {
    split.aligned.push_back(input.shape.rank() == s.outputs[0].shape.rank());
  }
  return split;
}

double flops(const Signature& s) {
  return 4 * static_cast<double>(s.inputs[0].shape.total_extent());
}

ReduceOptions over_rows(const Tensor& x) {
  std::vector<int> axes(static_cast<size_t>(x.rank() - 1));
  std::iota(axes.begin(), axes.end(), 0);
  return {.axes = axes};
}

/// A value per channel at every row, divided by the number of rows, which may not be known yet.
Tensor spread_evenly(const Tensor& channels, const Shape& shape) {
  static const op::OpDef& def = op::find_op("broadcast_to");
  return op::apply_one(
      def, {channels},
      {{"shape", shape}, {"scale", static_cast<int64_t>(Scale::mean)}, {"divisor", int64_t{0}}});
}

/// The sums per channel of g, and of g (x - mean).
std::pair<Tensor, Tensor> sums_of(const Tensor& g, const Tensor& x, const Tensor& mean) {
  static const op::OpDef& def = op::find_op("channel_sums");
  const Tensors sums = op::apply(def, {g, x, mean});
  return {sums[0], sums[1]};
}

Tensors moments_gradient(const Call& call, const Tensors& g) {
  const Tensor& x = call.inputs[0];
  Tensor result = spread_evenly(g[0], x.shape());
  if (g[1].defined()) {
    result = result + spread_evenly(g[1] * 2.0, x.shape()) * (x - call.outputs[0]);
  }
  return {result};
}

/// The gradient of (v + epsilon)^(-1/2).
Tensors inverse_gradient(const Call& call, const Tensors& g) {
  const Tensor& inverse = call.outputs[0];
  return {g[0] * inverse * inverse * inverse * -0.5};
}

Tensors sums_gradient(const Call& call, const Tensors& h) {
  const Tensor& g = call.inputs[0];
  const Tensor& x = call.inputs[1];
  const Tensor& mean = call.inputs[2];
  Tensors result(3);
  if (!h[1].defined()) {
    result[0] = broadcast_to(h[0], g.shape());
    return result;
  }
  if (call.needed[0]) result[0] = (x - mean) * h[1] + h[0];
  if (call.needed[1]) result[1] = g * h[1];
  if (call.needed[2]) result[2] = call.outputs[0] * h[1] * -1.0;
  return result;
}

/// The gradient of y = (x - mean) inverse gamma + beta. With the batch's own statistics the
/// gradient of `x` is the whole of it, by way of mean and inverse too, and theirs is left out here.
Tensors normalize_gradient(const Call& call, const Tensors& g) {
  static const op::OpDef& grad = op::find_op("batch_normalize_grad");
  const Tensor& x = call.inputs[0];
  const Tensor& mean = call.inputs[1];
  const Tensor& inverse = call.inputs[2];
  const Tensor& gamma = call.inputs[3];
  const bool own_statistics = call.attrs.get<bool>("own_statistics");
  const auto [sum, product] = sums_of(g[0], x, mean);
  Tensors result(5);
  if (call.needed[0]) {
    result[0] = own_statistics ? op::apply_one(grad, {g[0], x, mean, inverse, gamma, sum, product})
                               : g[0] * (gamma * inverse);
  }
  if (!own_statistics) {
    if (call.needed[1]) result[1] = sum * gamma * inverse * -1.0;
    if (call.needed[2]) result[2] = product * gamma;
  }
  result[3] = product * inverse;
  result[4] = sum;
  return result;
}

/// The gradient of r = s (g - sum / n - (x - mean) inverse^2 product / n), with s = gamma inverse.
Tensors normalize_grad_gradient(const Call& call, const Tensors& h) {
  const Tensor& g = call.inputs[0];
  const Tensor& x = call.inputs[1];
  const Tensor& mean = call.inputs[2];
  const Tensor& inverse = call.inputs[3];
  const Tensor& gamma = call.inputs[4];
  const Tensor& sum = call.inputs[5];
  const Tensor& product = call.inputs[6];
  const Tensor scale = gamma * inverse;
  const Tensor square = inverse * inverse;
  const Tensor h_mean = reduce_mean(h[0], over_rows(x));
  const Tensor h_mean_product = reduce_mean(h[0] * (x - mean), over_rows(x));
  // The sum of h times what stands in the brackets.
  const Tensor inner =
      reduce_sum(h[0] * g, over_rows(x)) - sum * h_mean - square * product * h_mean_product;
  Tensors result(7);
  if (call.needed[0]) result[0] = h[0] * scale;
  if (call.needed[1]) {
    result[1] = spread_evenly(scale * square * product * -1.0, x.shape()) * h[0];
  }
  if (call.needed[2]) result[2] = scale * square * product * h_mean;
  if (call.needed[3]) {
    result[3] = gamma * inner - scale * inverse * product * h_mean_product * 2.0;
  }
  if (call.needed[4]) result[4] = inverse * inner;
  if (call.needed[5]) result[5] = scale * h_mean * -1.0;
  if (call.needed[6]) result[6] = scale * square * h_mean_product * -1.0;
  return result;
}

Tensor inverse_deviation(const Tensor& variance, double epsilon) {
  static const op::OpDef& def = op::find_op("inverse_deviation");
  return op::apply_one(def, {variance}, {{"epsilon", epsilon}});
}

Tensor normalize(const Tensor& x, const Tensor& mean, const Tensor& inverse, const Tensor& gamma,
                 const Tensor& beta, bool own_statistics) {
  static const op::OpDef& def = op::find_op("batch_normalize");
  return op::apply_one(def, {x, mean, inverse, gamma, beta}, {{"own_statistics", own_statistics}});
}

struct NamedTensor {
  const char* name;
  const Tensor& tensor;
};

void check(std::string_view op, const Tensor& x, std::initializer_list<NamedTensor> per_channel) {
  if (x.dtype() != DType::float32 && x.dtype() != DType::float64) {
    throw InvalidArgument(
        fmt::format("{}: {} is not supported; float32 and float64 are", op, name_of(x.dtype())));
  }
  if (x.rank() < 2 || x.shape().extent(x.rank() - 1) < 0) {
    throw InvalidArgument(fmt::format("{}: x must be [..,channels], got {}", op, x.shape().str()));
  }
  const TensorType wanted{x.dtype(), {x.shape().extent(x.rank() - 1)}};
  for (const auto& [name, tensor] : per_channel) {
    if (type_of(tensor) == wanted) continue;
    throw InvalidArgument(fmt::format("{}: {} must be {} for x {}, got {}", op, name, wanted.str(),
                                      x.shape().str(), type_of(tensor).str()));
  }
}

}  // namespace

void register_batch_norm(op::Registry& registry) {
  registry.add({.name = "channel_moments",
                .infer = infer_two_per_channel,
                .split = split_channels,
                .gradient = moments_gradient,
                .flops = flops});
  registry.add({.name = "channel_sums",
                .infer = infer_two_per_channel,
                .split = split_channels,
                .gradient = sums_gradient,
                .flops = flops});
  registry.add({.name = "inverse_deviation",
                .infer = infer_as_first,
                .split = op::split_rows,
                .gradient = inverse_gradient,
                .in_place = true});
  registry.add({.name = "batch_normalize",
                .infer = infer_as_first,
                .split = split_images,
                .gradient = normalize_gradient,
                .flops = flops,
                .in_place = true});
  registry.add({.name = "batch_normalize_grad",
                .infer = infer_as_first,
                .split = split_images,
                .gradient = normalize_grad_gradient,
                .flops = flops,
                .in_place = true});
}

}  // namespace ops

BatchNorm batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                     const BatchNormOptions& options) {
  static const op::OpDef& moments = op::find_op("channel_moments");
  ops::check("batch_norm", x, {{"gamma", gamma}, {"beta", beta}});
  const Tensors statistics = op::apply(moments, {x});
  const Tensor inverse = ops::inverse_deviation(statistics[1], options.epsilon);
  return {ops::normalize(x, statistics[0], inverse, gamma, beta, true), statistics[0],
          statistics[1]};
}

Tensor batch_norm_inference(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                            const Tensor& mean, const Tensor& variance,
                            const BatchNormOptions& options) {
  ops::check("batch_norm_inference", x,
             {{"gamma", gamma}, {"beta", beta}, {"mean", mean}, {"variance", variance}});
  return ops::normalize(x, mean, ops::inverse_deviation(variance, options.epsilon), gamma, beta,
                        false);
}

}  // namespace tandem
