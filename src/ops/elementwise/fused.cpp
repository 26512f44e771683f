#include "ops/elementwise/fused.h"

#include "op/expression.h"
#include "op/registry.h"
#include "tandem/error.h"

namespace tandem::ops {
namespace {

using op::ExpressionPtr;
using op::Signature;

/// The pass sets the outputs.
op::TensorTypes infer(const Signature& s) {
  throw FailedPrecondition(s.op->name + ": made by fusion only");
}

/// Operations of all calls of an expression, whose results have the type of the first output.
double flops_of_steps(const op::Expression& expression, const Signature& s) {
  double sum = 0;
  for (const auto& call : expression.calls) {
    const Signature alone{call.op, {s.outputs[0]}, {s.outputs[0]}, call.attrs, {}};
    sum += call.op->flops ? call.op->flops(alone)
                          : static_cast<double>(s.outputs[0].shape.total_extent());
  }
  return sum;
}

double flops(const Signature& s) {
  return flops_of_steps(*s.attrs.get<ExpressionPtr>("expression"), s);
}

}  // namespace

op::OpDef fused_product(std::string name, std::function<op::Split(const Signature&)> split,
                        std::function<double(const Signature&)> flops) {
  return {.name = std::move(name),
          .infer = infer,
          .split = std::move(split),
          .no_gradient = true,
          .flops = [flops = std::move(flops)](const Signature& s) {
            return flops(s) + flops_of_steps(*s.attrs.get<ExpressionPtr>("epilogue"), s);
          }};
}

void register_fused(op::Registry& registry) {
  registry.add({.name = "fused",
                .infer = infer,
                .split = op::split_rows,
                .no_gradient = true,
                .flops = flops,
                .in_place = true});
}

}  // namespace tandem::ops
