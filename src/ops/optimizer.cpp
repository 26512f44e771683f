#include "ops/optimizer.h"

#include <fmt/format.h>

#include "op/apply.h"
#include "op/registry.h"
#include "tandem/error.h"

namespace tandem::ops {
namespace {

/// Ranges: w, m, v of each variable, then iterations and learning_rate.
op::TensorTypes infer(const op::Signature& s) {
  for (size_t i = 0; i < s.inputs.size(); ++i) {
    if (s.inputs[i] == s.ranges[3 * i]) continue;
    throw InvalidArgument(fmt::format("adam_update: gradient {} is {}{}, its variable {}{}", i,
                                      name_of(s.inputs[i].dtype), s.inputs[i].shape.str(),
                                      name_of(s.ranges[3 * i].dtype), s.ranges[3 * i].shape.str()));
  }
  return {};
}

op::RangeOperand slot_of(const Variable& variable, const char* name) {
  op::RangeOperand operand = op::operand_of(variable);
  operand.range = operand.range.slot(name);
  return operand;
}

}  // namespace

void register_optimizer(op::Registry& registry) {
  registry.add({.name = "adam_update",
                .infer = infer,
                .split = op::split_chunks,
                .no_gradient = true,
                .writes_ranges = true,
                .ranges_only_read = 2});
}

void adam_update(const Tensors& gradients, const Variables& variables, const Variable& iterations,
                 const Variable& learning_rate, const AdamAttrs& attrs) {
  static const op::OpDef& def = op::find_op("adam_update");
  op::RangeOperands ranges;
  for (const Variable& variable : variables) {
    ranges.push_back(op::operand_of(variable));
    ranges.push_back(slot_of(variable, "m"));
    ranges.push_back(slot_of(variable, "v"));
  }
  ranges.push_back(op::operand_of(iterations));
  ranges.push_back(op::operand_of(learning_rate));
  op::apply(def, gradients,
            {{"beta_1", attrs.beta_1},
             {"beta_2", attrs.beta_2},
             {"epsilon", attrs.epsilon},
             {"weight_decay", attrs.weight_decay}},
            std::move(ranges));
}

}  // namespace tandem::ops
