// The cross-entropies with logits, from which all classifying losses are made.
#include "tandem/ops/loss.h"

#include <fmt/format.h>

#include "op/apply.h"
#include "op/registry.h"
#include "ops/loss/softmax_grad.h"
#include "ops/shaping/broadcast.h"
#include "ops/shaping/exact_shape.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem {
namespace ops {
namespace {

using op::Call;
using op::Signature;

constexpr const char* kLabelsSumToOne = "labels_sum_to_one";

// Each op has two outputs: the losses, and their derivatives by the logits, which fall out of the
// same pass. Gradients use the second; its own gradient is the second derivative.

op::TensorTypes infer_softmax(const Signature& s) {
  const op::TensorType& logits = s.inputs[0];
  return {{logits.dtype, Shape{logits.shape.extent(0)}}, logits};
}

op::TensorTypes infer_sigmoid(const Signature& s) {
  check_same_dtype(s);
  check_floating(s);
  if (s.inputs[0].shape != s.inputs[1].shape) {
    throw InvalidArgument(
        fmt::format("sigmoid_cross_entropy_with_logits: labels and logits must have one shape, got "
                    "{} and {}",
                    s.inputs[1].shape.str(), s.inputs[0].shape.str()));
  }
  return {s.inputs[0], s.inputs[0]};
}

op::Split split(const Signature& s) {
  return {.extent = s.inputs[0].shape.leading_extent(), .aligned = {true, true}};
}

/// An exponential counts for about ten operations.
double flops(const Signature& s) {
  return 10 * static_cast<double>(s.inputs[0].shape.total_extent());
}

/// One per row, as a column.
Tensor column(const Tensor& x) { return with_shape(x, x.shape().inserted(1, 1)); }

Tensor sum_classes(const Tensor& x) { return reduce_sum(x, {.axes = {{1}}, .keepdims = true}); }

/// Outputs: loss = (sum of labels) log(sum of exp(logits)) - sum of labels logits
///          backprop = (sum of labels) softmax(logits) - labels
/// In backprop the sum of labels is 1 where they are said to sum to that.
Tensors softmax_gradient(const Call& call, const Tensors& g) {
  const Tensor& logits = call.inputs[0];
  const Tensor& labels = call.inputs[1];
  const Tensor& h = g[1];  // Undefined unless somebody differentiates the gradient.
  const bool sum_to_one = call.attrs.get<bool>(kLabelsSumToOne);
  const Tensor p = h.defined() ? softmax(logits) : Tensor();
  Tensors result(2);
  if (call.needed[0]) {
    result[0] = column(g[0]) * call.outputs[1];
    if (h.defined()) {
      const Tensor by_softmax = softmax_grad(h, p, 1);
      result[0] = result[0] + (sum_to_one ? by_softmax : by_softmax * sum_classes(labels));
    }
  }
  if (call.needed[1]) {
    result[1] = column(g[0]) * log_softmax(logits) * -1.0;
    if (h.defined()) result[1] = (sum_to_one ? result[1] : result[1] + sum_classes(h * p)) - h;
  }
  return result;
}

Tensors sparse_gradient(const Call& call, const Tensors& g) {
  Tensor result = column(g[0]) * call.outputs[1];
  if (g[1].defined()) result = result + softmax_grad(g[1], softmax(call.inputs[0]), 1);
  return {result, Tensor()};
}

/// Outputs: loss = log(1 + exp(x)) - x labels, backprop = sigmoid(x) - labels.
Tensors sigmoid_gradient(const Call& call, const Tensors& g) {
  const Tensor& labels = call.inputs[1];
  Tensors result(2);
  if (call.needed[0]) {
    result[0] = g[0] * call.outputs[1];
    if (g[1].defined()) {
      const Tensor sigmoid = call.outputs[1] + labels;
      result[0] = result[0] + g[1] * (sigmoid - sigmoid * sigmoid);
    }
  }
  if (call.needed[1]) {
    result[1] = g[0] * call.inputs[0] * -1.0;
    if (g[1].defined()) result[1] = result[1] - g[1];
  }
  return result;
}

/// Calls `def` with all lines of `logits` as rows; one loss for each, with the leading shape.
Tensor per_line(const op::OpDef& def, const Tensor& logits, const Tensor& labels,
                const Shape& flat_labels, const op::Attrs& attrs = {}) {
  const Shape& shape = logits.shape();
  const Shape lines = shape.without(shape.rank() - 1);
  if (shape.rank() == 2) return op::apply(def, {logits, labels}, attrs)[0];
  const Shape flat{lines.total_extent(), shape.extent(shape.rank() - 1)};
  const Tensors flattened = {with_shape(logits, flat), with_shape(labels, flat_labels)};
  return with_shape(op::apply(def, flattened, attrs)[0], lines);
}

void check_floating_logits(std::string_view op, const Tensor& logits) {
  if (is_floating(logits.dtype())) return;
  throw InvalidArgument(fmt::format("{}: logits of {} are not supported; float32 and float64 are",
                                    op, name_of(logits.dtype())));
}

}  // namespace

void register_loss(op::Registry& registry) {
  registry.add({.name = "softmax_cross_entropy",
                .infer = infer_softmax,
                .split = split,
                .gradient = softmax_gradient,
                .flops = flops});
  registry.add({.name = "sparse_softmax_cross_entropy",
                .infer = infer_softmax,
                .split = split,
                .gradient = sparse_gradient,
                .flops = flops});
  registry.add({.name = "sigmoid_cross_entropy",
                .infer = infer_sigmoid,
                .split = split,
                .gradient = sigmoid_gradient,
                .flops = flops});
}

}  // namespace ops

Tensor softmax_cross_entropy_with_logits(const Tensor& labels, const Tensor& logits,
                                         const CrossEntropyOptions& options) {
  static const op::OpDef& def = op::find_op("softmax_cross_entropy");
  ops::check_floating_logits("softmax_cross_entropy_with_logits", logits);
  const Shape& shape = logits.shape();
  if (shape.rank() == 0 || labels.shape() != shape || labels.dtype() != logits.dtype()) {
    throw InvalidArgument(
        fmt::format("softmax_cross_entropy_with_logits: labels and logits must both be "
                    "[..,classes] of one dtype, got {} and {}",
                    type_of(labels).str(), type_of(logits).str()));
  }
  const Shape flat{shape.without(shape.rank() - 1).total_extent(), shape.extent(shape.rank() - 1)};
  const op::Attrs attrs{{ops::kLabelsSumToOne, options.labels_sum_to_one}};
  return ops::per_line(def, logits, labels, flat, attrs);
}

Tensor sparse_softmax_cross_entropy_with_logits(const Tensor& labels, const Tensor& logits) {
  static const op::OpDef& def = op::find_op("sparse_softmax_cross_entropy");
  ops::check_floating_logits("sparse_softmax_cross_entropy_with_logits", logits);
  const Shape& shape = logits.shape();
  const bool whole = labels.dtype() == DType::int32 || labels.dtype() == DType::int64;
  if (!whole || shape.rank() == 0 || labels.shape() != shape.without(shape.rank() - 1)) {
    throw InvalidArgument(
        fmt::format("sparse_softmax_cross_entropy_with_logits: labels must be int32 or int64 [..] "
                    "and logits [..,classes], got {} and {}",
                    type_of(labels).str(), type_of(logits).str()));
  }
  return ops::per_line(def, logits, labels, {labels.shape().total_extent()});
}

Tensor sigmoid_cross_entropy_with_logits(const Tensor& labels, const Tensor& logits) {
  static const op::OpDef& def = op::find_op("sigmoid_cross_entropy");
  return op::apply(def, {logits, labels})[0];
}

}  // namespace tandem
