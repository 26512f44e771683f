#include "ops/optimizer.h"

#include <fmt/format.h>

#include "op/apply.h"
#include "op/registry.h"
#include "op/update.h"
#include "tandem/error.h"

namespace tandem::ops {
namespace {

void check_scalar(const op::Signature& s, const char* name, size_t input, DType dtype) {
  const TensorType accepted{dtype, {}};
  if (s.inputs[input] == accepted) return;
  throw InvalidArgument(fmt::format("{}: the {} is {}, {} is accepted", s.op->name, name,
                                    s.inputs[input].str(), accepted.str()));
}

op::TensorTypes infer(const op::Signature& s) {
  const op::UpdateLayout layout(s);
  for (size_t i = 0; i < s.ranges.size(); ++i) {
    const size_t owner = layout.owner(i);
    const op::TensorType& gradient = s.inputs[owner];
    if (gradient == s.ranges[i] && gradient.dtype == s.inputs[0].dtype) continue;
    throw InvalidArgument(fmt::format("{}: gradient {} is {}, its variable or slot {}", s.op->name,
                                      owner, gradient.str(), s.ranges[i].str()));
  }
  check_scalar(s, "rate", layout.rate(), DType::float64);
  check_scalar(s, "step", layout.step(), DType::int64);
  check_scalar(s, "condition", layout.condition(), DType::boolean);
  return {};
}

/// Every thread reads the scalars.
op::Split split(const op::Signature& s) {
  const auto gradients = op::UpdateLayout(s).gradients(s.inputs);
  op::Signature own;
  own.inputs.assign(gradients.begin(), gradients.end());
  return op::split_chunks(own);
}

}  // namespace

void register_optimizer(op::Registry& registry) {
  for (const char* name :
       {"sgd_update", "rmsprop_update", "adagrad_update", "adam_update", "accumulate_update"}) {
    registry.add({.name = name,
                  .infer = infer,
                  .split = split,
                  .no_gradient = true,
                  .writes_ranges = true,
                  .is_update = true});
  }
}

void apply_update(const UpdateRule& rule, const UpdateOperands& operands) {
  op::RangeOperands ranges;
  for (size_t i = 0; i < operands.variables.size(); ++i) {
    ranges.push_back(op::operand_of(operands.variables[i]));
    if (operands.slots.empty()) continue;
    for (const Variable& slot : operands.slots[i]) ranges.push_back(op::operand_of(slot));
  }
  op::apply(op::find_op(rule.op),
            op::UpdateLayout::inputs<Tensor>(operands.gradients,
                                             {operands.rate, operands.step, operands.condition}),
            rule.attrs, ranges);
}

}  // namespace tandem::ops
