// The op that the fusion of elementwise calls makes; see graph/passes/fuse_elementwise.cpp. Nobody
// calls it, so it has no function.
#include "op/expression.h"
#include "op/registry.h"
#include "tandem/error.h"

namespace tandem::ops {
namespace {

using op::ExpressionPtr;
using op::Signature;

/// The pass sets the outputs; their shapes are all the same.
op::TensorTypes infer(const Signature& s) {
  throw FailedPrecondition(s.op->name + ": made by fusion only");
}

double flops(const Signature& s) {
  double sum = 0;
  for (const auto& step : s.attrs.get<ExpressionPtr>("expression")->steps) {
    const Signature alone{step.op, {s.outputs[0]}, {s.outputs[0]}, step.attrs, {}};
    sum += step.op->flops ? step.op->flops(alone) : static_cast<double>(s.outputs[0].shape.count());
  }
  return sum;
}

}  // namespace

void register_fused(op::Registry& registry) {
  registry.add({.name = "fused",
                .infer = infer,
                .split = op::split_rows,
                .no_gradient = true,  // Fusion comes after differentiation.
                .flops = flops,
                .in_place = true});
}

}  // namespace tandem::ops
