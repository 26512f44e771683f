#include <fmt/format.h>

#include "op/apply.h"
#include "op/registry.h"
#include "ops/broadcast.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem {
namespace ops {
namespace {

/// Outputs: the loss of each row, and its derivative by the logits, which falls out of the same
/// pass.
op::TensorTypes infer(const op::Signature& s) {
  check_same_dtype(s);
  check_floating(s);
  const op::TensorType& logits = s.inputs[0];
  const op::TensorType& labels = s.inputs[1];
  if (logits.shape.rank() != 2 || labels.shape != logits.shape) {
    throw InvalidArgument(
        fmt::format("softmax_cross_entropy_with_logits: labels and logits must both be "
                    "[rows,classes], got {} and {}",
                    labels.shape.str(), logits.shape.str()));
  }
  return {{logits.dtype, Shape{logits.shape[0]}}, logits};
}

op::Split split(const op::Signature& s) {
  return {.extent = s.inputs[0].shape[0], .aligned = {true, true}};
}

Tensors gradient(const op::Call& call, const Tensors& g) {
  if (call.needed[1]) {
    throw Unimplemented(
        "softmax_cross_entropy_with_logits: no gradient with respect to the labels");
  }
  if (g[1].defined()) {
    throw Unimplemented("softmax_cross_entropy_with_logits: no second derivative");
  }
  const Shape column = g[0].shape().inserted(1, 1);
  return {reshape(g[0], column) * call.outputs[1], Tensor()};
}

}  // namespace

void register_loss(op::Registry& registry) {
  registry.add(
      {.name = "softmax_cross_entropy", .infer = infer, .split = split, .gradient = gradient});
}

}  // namespace ops

Tensor softmax_cross_entropy_with_logits(const Tensor& labels, const Tensor& logits) {
  static const op::OpDef& def = op::find_op("softmax_cross_entropy");
  return op::apply(def, {logits, labels})[0];
}

}  // namespace tandem
