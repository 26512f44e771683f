#include "ops/optimizer.h"

#include <fmt/format.h>

#include "op/apply.h"
#include "op/registry.h"
#include "tandem/error.h"

namespace tandem::ops {
namespace {

constexpr size_t kScalars = 2;  // After the gradients: the rate and the step.

/// Ranges: each variable and its slots.
op::TensorTypes infer(const op::Signature& s) {
  const size_t count = s.inputs.size() - kScalars;
  for (size_t i = 0; i < s.ranges.size(); ++i) {
    const size_t owner = i * count / s.ranges.size();
    const op::TensorType& gradient = s.inputs[owner];
    if (gradient == s.ranges[i] && gradient.dtype == s.inputs[0].dtype) continue;
    throw InvalidArgument(fmt::format("{}: gradient {} is {}{}, its variable or slot {}{}",
                                      s.op->name, owner, name_of(gradient.dtype),
                                      gradient.shape.str(), name_of(s.ranges[i].dtype),
                                      s.ranges[i].shape.str()));
  }
  const op::TensorType& rate = s.inputs[count];
  const op::TensorType& step = s.inputs[count + 1];
  if (rate != op::TensorType{DType::float64, {}} || step != op::TensorType{DType::int64, {}}) {
    throw InvalidArgument(fmt::format(
        "{}: the rate is {}{} and the step {}{}; they are scalars, float64 and int64", s.op->name,
        name_of(rate.dtype), rate.shape.str(), name_of(step.dtype), step.shape.str()));
  }
  return {};
}

/// In chunks of the gradients; every thread reads the scalars.
op::Split split(const op::Signature& s) {
  op::Signature gradients;
  gradients.inputs.assign(s.inputs.begin(), s.inputs.end() - kScalars);
  return op::split_chunks(gradients);
}

}  // namespace

void register_optimizer(op::Registry& registry) {
  for (const char* name :
       {"sgd_update", "rmsprop_update", "adagrad_update", "adam_update", "accumulate_update"}) {
    registry.add(
        {.name = name, .infer = infer, .split = split, .no_gradient = true, .writes_ranges = true});
  }
}

void apply_update(const UpdateRule& rule, const Tensors& gradients, const Variables& variables,
                  const Variables& slots, const Tensor& rate, const Tensor& step) {
  Tensors inputs = gradients;
  inputs.push_back(rate);
  inputs.push_back(step);
  const size_t slots_each = slots.size() / variables.size();
  op::RangeOperands ranges;
  for (size_t i = 0; i < variables.size(); ++i) {
    ranges.push_back(op::operand_of(variables[i]));
    for (size_t k = 0; k < slots_each; ++k) {
      ranges.push_back(op::operand_of(slots[i * slots_each + k]));
    }
  }
  op::apply(op::find_op(rule.op), std::move(inputs), rule.attrs, ranges);
}

}  // namespace tandem::ops
