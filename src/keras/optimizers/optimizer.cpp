// What all optimizers have in common. apply_gradients sums the gradients over the replicas, takes
// the mean with those of former steps, clips, and calls the update op of the optimizer's rule. All
// of that is ops, so that in a traced function it is part of the program.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "collective/collective.h"
#include "keras/optimizers/optimizer_body.h"
#include "op/apply.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem::keras::optimizers {
namespace {

using schedules::LearningRateSchedule;

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
    if (type_of(gradients[i]) != type_of(variables[i])) {
      throw InvalidArgument(fmt::format("apply_gradients: variable '{}' is {}, its gradient {}",
                                        variables[i].name(), type_of(variables[i]).str(),
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

/// Variables of one dtype in one memory space, which one call updates, with their gradients.
struct UpdateSet {
  Tensors gradients;
  Variables variables;

  bool takes(const Variable& variable) const {
    const auto space = [](const Variable& v) {
      return &v.body()->range.block->components()[0]->device()->space();
    };
    return variable.dtype() == variables[0].dtype() && space(variable) == space(variables[0]);
  }
};

std::vector<UpdateSet> grouped(const Tensors& gradients, const Variables& variables) {
  std::vector<UpdateSet> groups;
  for (size_t i = 0; i < variables.size(); ++i) {
    auto group =
        std::ranges::find_if(groups, [&](const UpdateSet& g) { return g.takes(variables[i]); });
    if (group == groups.end()) group = groups.insert(group, UpdateSet{});
    group->gradients.push_back(op::with_all_rows(gradients[i]));
    group->variables.push_back(variables[i]);
  }
  return groups;
}

/// The gradients with those of the steps before, divided by the number of steps.
Tensors mean(const Tensors& gradients, const Variables& accumulators, int64_t steps) {
  Tensors results;
  for (size_t i = 0; i < gradients.size(); ++i) {
    results.push_back((accumulators[i].value() + gradients[i]) / static_cast<double>(steps));
  }
  return results;
}

/// Over all groups at once.
void clip_in_place(std::vector<Tensors>& gradients, const Clipping& clipping) {
  Tensors flat;
  for (const Tensors& group : gradients) flat.insert(flat.end(), group.begin(), group.end());
  flat = clipped(flat, clipping);
  auto next = flat.begin();
  for (Tensors& group : gradients) {
    for (Tensor& gradient : group) gradient = *next++;
  }
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

std::vector<Variables> OptimizerBody::rule_slots(const Variables& variables) const {
  std::vector<Variables> result;
  for (const Variable& variable : variables) {
    const Variables& own = slots.of(variable);
    result.emplace_back(own.begin() + (described.every > 1 ? 1 : 0), own.end());
  }
  return result;
}

Variables OptimizerBody::accumulators(const Variables& variables) const {
  Variables result;
  for (const Variable& variable : variables) result.push_back(slots.of(variable)[0]);
  return result;
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
  if (!body_->schedule) return body_->learning_rate.value();
  return (*body_->schedule)(body_->iterations.value());
}

void Optimizer::apply_gradients(const Tensors& gradients, const Variables& variables,
                                const Tensor& condition) const {
  check(gradients, variables);
  check_condition(condition);
  if (variables.empty()) return;
  const OptimizerDescription& described = body_->described;
  body_->slots.track(variables);
  // Before the gradients are waited for: the rate is computed while they are.
  const Tensor step = body_->iterations.value();
  const Tensor rate = current_learning_rate();
  const Tensor is_on = condition.defined() ? condition : Tensor(true);
  const std::vector<UpdateSet> groups = grouped(gradients, variables);

  std::vector<Tensors> sums, applied;
  for (const UpdateSet& group : groups) {
    sums.push_back(collective::all_reduce(group.gradients));
    applied.push_back(described.every == 1 ? sums.back()
                                           : mean(sums.back(), body_->accumulators(group.variables),
                                                  described.every));
  }
  clip_in_place(applied, described.clipping);
  for (size_t i = 0; i < groups.size(); ++i) {
    const Variables& updated = groups[i].variables;
    ops::apply_update(described.rule, {.gradients = applied[i],
                                       .variables = updated,
                                       .slots = body_->rule_slots(updated),
                                       .rate = rate,
                                       .step = step,
                                       .condition = is_on});
    if (described.every == 1) continue;
    ops::apply_update({"accumulate_update", {{"every", described.every}}},
                      {.gradients = sums[i],
                       .variables = body_->accumulators(updated),
                       .rate = rate,
                       .step = step,
                       .condition = is_on});
  }
  body_->iterations.assign_add(condition.defined() ? cast(condition, DType::int64)
                                                   : Tensor(int64_t{1}));
}

}  // namespace tandem::keras::optimizers
