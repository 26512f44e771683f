// What all optimizers have in common. apply_gradients sums the gradients over the replicas, takes
// the mean with those of former steps, clips, and calls the update op of the optimizer's rule. All
// of that is ops, so that in a traced function it is part of the program. Where the variables lie
// on parameter servers, all but the sum is theirs.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "distribute/range/gradient_sink.h"
#include "keras/optimizers/optimizer_body.h"
#include "keras/optimizers/optimizer_update.h"
#include "op/apply.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem::keras::optimizers {
namespace {

using schedules::LearningRateSchedule;

/// Each replica updates its part of a variable that is cut.
void check_cut(const Variable& variable) {
  const VariableBody& body = *variable.body();
  const bool is_cut = !body.cut.is_whole() || !body.slot_cut.is_whole();
  if (!is_cut || op::interpreter().is_replica()) return;
  throw FailedPrecondition(
      fmt::format("apply_gradients: variable '{}' is cut over several devices, or its slots are; "
                  "call it inside a function that is run with strategy.run",
                  variable.name()));
}

void check(const Tensors& gradients, const Variables& variables) {
  if (gradients.size() != variables.size()) {
    throw InvalidArgument(fmt::format("apply_gradients: {} gradients for {} variables",
                                      gradients.size(), variables.size()));
  }
  std::unordered_set<const void*> seen;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!seen.insert(variables[i].body().get()).second) {
      throw InvalidArgument(
          fmt::format("apply_gradients: variable '{}' is there twice", variables[i].name()));
    }
    if (!gradients[i].defined()) {
      throw InvalidArgument(
          fmt::format("apply_gradients: variable '{}' has no gradient; the loss does not depend on "
                      "it, leave it out",
                      variables[i].name()));
    }
    check_cut(variables[i]);
    const TensorType accepted = op::operand_of(variables[i]).type;
    if (type_of(gradients[i]) != accepted) {
      throw InvalidArgument(fmt::format("apply_gradients: variable '{}' is {}, its gradient {}",
                                        variables[i].name(), accepted.str(),
                                        type_of(gradients[i]).str()));
    }
  }
}

void check_condition(const Tensor& condition) {
  const TensorType accepted{DType::boolean, {}};
  if (!condition.defined() || type_of(condition) == accepted) return;
  throw InvalidArgument(fmt::format("apply_gradients: condition is {}, a {} is accepted",
                                    type_of(condition).str(), accepted.str()));
}

Variable rate_variable(const LearningRate& rate, const std::string& name) {
  const double* number = std::get_if<double>(&rate.value());
  if (number == nullptr) return {};
  return Variable(Tensor(*number), {.name = name + "/learning_rate", .trainable = false});
}

std::optional<LearningRateSchedule> schedule_of(const LearningRate& rate) {
  const auto* schedule = std::get_if<LearningRateSchedule>(&rate.value());
  return schedule ? std::optional(*schedule) : std::nullopt;
}

TrackedSlots::Groups all_slots(const OptimizerDescription& d) {
  TrackedSlots::Groups groups = d.slots;
  if (d.every > 1) {
    const TrackedSlots::Slot sums{"gradient_accumulator", "_accumulated_gradients"};
    groups.insert(groups.begin(), std::vector{sums});
  }
  return groups;
}

}  // namespace

OptimizerBody::OptimizerBody(const Trackable& node, const LearningRate& rate,
                             const OptimizerDescription& d)
    : described(d),
      iterations(Tensor(int64_t{0}), {.name = d.name + "/iterations",
                                      .trainable = false,
                                      .aggregation = VariableAggregation::only_first_replica}),
      learning_rate(rate_variable(rate, d.name)),
      schedule(schedule_of(rate)),
      slots(node, d.name, iterations, learning_rate, all_slots(d)) {}

Tensor OptimizerBody::rate_at(const Tensor& step) const {
  return schedule ? (*schedule)(step) : learning_rate.value();
}

Optimizer::Optimizer(const LearningRate& learning_rate, const OptimizerDescription& description)
    : body_(std::make_shared<OptimizerBody>(*this, learning_rate, description)) {}

void Optimizer::build(const Variables& variables) const { body_->slots.track(variables); }

const std::string& Optimizer::name() const { return body_->described.name; }
const Variable& Optimizer::iterations() const { return body_->iterations; }
Variables Optimizer::variables() const { return body_->slots.all(); }

const Variable& Optimizer::learning_rate() const {
  if (body_->schedule) {
    throw FailedPrecondition(fmt::format(
        "{}: learning_rate is set by a schedule; current_learning_rate() tells its value", name()));
  }
  return body_->learning_rate;
}

Tensor Optimizer::current_learning_rate() const {
  return body_->rate_at(body_->iterations.value());
}

void Optimizer::apply_gradients(const Tensors& gradients, const Variables& variables,
                                const Tensor& condition) const {
  check(gradients, variables);
  check_condition(condition);
  if (variables.empty()) return;
  body_->slots.track(variables);
  const Tensor is_on = condition.defined() ? condition : Tensor(true);
  if (auto* sink = distribute::GradientSink::current()) {
    return push(body_, gradients, variables, is_on, *sink);
  }
  // Before the gradients are waited for: the rate is computed while they are.
  const Tensor step = body_->iterations.value();
  const Tensor rate = body_->rate_at(step);
  std::vector<Variables> slots;
  for (const Variable& variable : variables) slots.push_back(body_->slots.of(variable));
  const std::vector<UpdateSet> sets = summed(body_->described, gradients, variables, slots);
  update(body_->described, sets, body_->described.clipping, {rate, step, is_on});
  apply_constraints(variables, is_on);
  body_->iterations.assign_add(condition.defined() ? cast(condition, DType::int64)
                                                   : Tensor(int64_t{1}));
}

}  // namespace tandem::keras::optimizers
