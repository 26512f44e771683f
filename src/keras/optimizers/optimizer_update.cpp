#include "keras/optimizers/optimizer_update.h"

#include <fmt/format.h>

#include <algorithm>

#include "collective/collective.h"
#include "keras/layers/constraints.h"
#include "op/apply.h"
#include "op/registry.h"
#include "ops/variable_parts.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem::keras::optimizers {
namespace {

int parts_of(const Variable& variable) { return variable.body()->cut.parts; }

/// The gradients with those of the steps before, divided by the number of steps.
Tensors mean(const UpdateSet& set, int64_t steps) {
  Tensors results;
  for (size_t i = 0; i < set.gradients.size(); ++i) {
    const Tensor before = op::read_part(set.slots[i][0]);
    results.push_back((before + set.gradients[i]) / static_cast<double>(steps));
  }
  return results;
}

/// Over all sets at once.
void clip_in_place(std::vector<Tensors>& gradients, const std::vector<UpdateSet>& sets,
                   const Clipping& clipping) {
  Tensors flat;
  std::vector<int> parts;
  for (size_t i = 0; i < sets.size(); ++i) {
    flat.insert(flat.end(), gradients[i].begin(), gradients[i].end());
    parts.resize(flat.size(), sets[i].parts());
  }
  flat = clipped(flat, clipping, parts);
  auto next = flat.begin();
  for (Tensors& set : gradients) {
    for (Tensor& gradient : set) gradient = *next++;
  }
}

/// The slots that the rule takes: all but the accumulators.
std::vector<Variables> rule_slots(const UpdateSet& set, int64_t every) {
  std::vector<Variables> slots = set.slots;
  if (every == 1) return slots;
  for (Variables& own : slots) own.erase(own.begin());
  return slots;
}

/// All replicas assign the same value: what it is computed of is the same on all of them.
void assign_everywhere(const Variable& variable, const Tensor& value) {
  static const op::OpDef& assign = op::find_op("assign");
  op::RangeOperand operand = op::operand_of(variable);
  operand.aggregation = VariableAggregation::only_first_replica;
  op::apply(assign, {ops::own_part(value, variable)}, {}, {operand});
}

void check_update(const std::string& optimizer, const Variable& variable,
                  const VariableStep& before, const VariableUpdate& after) {
  const auto check = [&](const std::string& what, const Tensor& made) {
    if (made.defined() && type_of(made) == type_of(variable)) return;
    throw InvalidArgument(fmt::format("{}: its update of variable '{}', {}, makes {} {}", optimizer,
                                      variable.name(), type_of(variable).str(), what,
                                      made.defined() ? type_of(made).str() : "undefined"));
  };
  check("the value", after.value);
  if (after.slots.size() != before.slots.size()) {
    throw InvalidArgument(fmt::format("{}: its update returns {} slots, the rule has {}", optimizer,
                                      after.slots.size(), before.slots.size()));
  }
  for (size_t i = 0; i < after.slots.size(); ++i) check(fmt::format("slot {}", i), after.slots[i]);
}

/// In each `every`-th step, where the condition holds.
Tensor acts(const UpdateScalars& scalars, const Tensor& number, int64_t every) {
  if (every == 1) return scalars.condition;
  const Tensor done = scalars.step + Tensor(int64_t{1});
  return logical_and(scalars.condition, equal(number * Tensor(every), done));
}

/// What a rule of ops makes of the variables of a set.
void apply_composed(const OptimizerDescription& described, const UpdateSet& set,
                    const Tensors& gradients, const UpdateScalars& scalars) {
  const int64_t every = described.every;
  const Tensor number =
      floor_div(scalars.step + Tensor(int64_t{1}), Tensor(every));  // The update's number.
  const Tensor is_on = acts(scalars, number, every);
  const std::vector<Variables> slots = rule_slots(set, every);
  for (size_t i = 0; i < set.variables.size(); ++i) {
    const Variable& variable = set.variables[i];
    const DType dtype = variable.dtype();
    const Tensor old = variable.value();
    VariableStep at{.value = old,
                    .gradient = ops::join_parts(gradients[i], variable),
                    .slots = {},
                    .rate = cast(scalars.rate, dtype),
                    .number = cast(number, dtype)};
    if (described.weight_decay != 0) at.value = old - old * at.rate * described.weight_decay;
    for (const Variable& slot : slots[i]) at.slots.push_back(slot.value());
    const VariableUpdate made = described.composed(at);
    check_update(described.name, variable, at, made);
    assign_everywhere(variable, where(is_on, made.value, old));
    for (size_t s = 0; s < slots[i].size(); ++s) {
      assign_everywhere(slots[i][s], where(is_on, made.slots[s], at.slots[s]));
    }
  }
}

/// Whether a gradient is sent to servers as some rows.
bool goes_by_rows(const Tensor& gradient) {
  const bool is_summed_there =
      gradient.dtype() == DType::float32 || gradient.dtype() == DType::float64;
  return gradient.is_row_sparse() && is_summed_there;
}

/// Clipping that each server can do to its elements alone.
Clipping by_value(Clipping clipping) {
  clipping.norm.reset();
  clipping.global_norm.reset();
  return clipping;
}

/// An optimizer's update on a parameter server.
class OptimizerOnServer final : public distribute::ServerUpdate {
 public:
  explicit OptimizerOnServer(std::shared_ptr<const OptimizerBody> optimizer)
      : optimizer_(std::move(optimizer)) {}

  bool accumulates() const override { return optimizer_->described.every > 1; }
  int64_t steps() const override { return optimizer_->iterations.value().item<int64_t>(); }

  void apply(const Operands& operands) const override {
    Variables variables;
    std::vector<Variables> slots;
    for (size_t i = 0; i < operands.variables.size(); ++i) {
      const auto elements = [&](const Variable& whole) {
        return operands.elements(i, whole, operands.gradients[i].shape().count());
      };
      variables.push_back(elements(operands.variables[i]));
      slots.emplace_back();
      for (const Variable& slot : optimizer_->slots.of(operands.variables[i])) {
        slots.back().push_back(elements(slot));
      }
    }
    const Tensor rate = optimizer_->rate_at(operands.step) * operands.scale;
    update(optimizer_->described, grouped(operands.gradients, variables, slots),
           by_value(optimizer_->described.clipping), {rate, operands.step, operands.condition});
    if (operands.counts) {
      optimizer_->iterations.assign(operands.step + cast(operands.condition, DType::int64));
    }
  }

 private:
  const std::shared_ptr<const OptimizerBody> optimizer_;
};

}  // namespace

bool UpdateSet::takes(const Variable& variable) const {
  // Processes see the same sets, whichever of their stages a variable is on.
  const auto space = [](const Variable& v) { return &v.body()->store->devices()[0]->space(); };
  return variable.dtype() == variables[0].dtype() && parts_of(variable) == parts() &&
         space(variable) == space(variables[0]);
}

int UpdateSet::parts() const { return parts_of(variables[0]); }

std::vector<UpdateSet> grouped(const Tensors& gradients, const Variables& variables,
                               const std::vector<Variables>& slots) {
  std::vector<UpdateSet> sets;
  for (size_t i = 0; i < variables.size(); ++i) {
    auto set =
        std::ranges::find_if(sets, [&](const UpdateSet& s) { return s.takes(variables[i]); });
    if (set == sets.end()) set = sets.insert(set, UpdateSet{});
    set->gradients.push_back(op::with_all_rows(gradients[i]));
    set->variables.push_back(variables[i]);
    set->slots.push_back(slots[i]);
  }
  return sets;
}

std::vector<UpdateSet> summed(const OptimizerDescription& described, Tensors gradients,
                              Variables variables, const std::vector<Variables>& slots) {
  // Rules of ops may use more of a variable than each element.
  for (size_t i = 0; i < variables.size() && !described.composed; ++i) {
    const VariableBody& body = *variables[i].body();
    if (body.slot_cut.is_whole()) continue;
    const bool waits = !body.has_gradient_in_parts;
    variables[i] = view_in_parts(variables[i]);
    gradients[i] = ops::sum_to_part(op::with_all_rows(gradients[i]), variables[i], waits);
  }
  std::vector<UpdateSet> sets = grouped(gradients, variables, slots);
  for (UpdateSet& set : sets) {
    set.gradients = set.parts() == 1 ? collective::all_reduce(set.gradients)
                                     : collective::sum_over_holders(set.gradients, set.parts());
  }
  return sets;
}

void update(const OptimizerDescription& described, const std::vector<UpdateSet>& sets,
            const Clipping& clipping, const UpdateScalars& scalars) {
  std::vector<Tensors> applied;
  for (const UpdateSet& set : sets) {
    applied.push_back(described.every == 1 ? set.gradients : mean(set, described.every));
  }
  clip_in_place(applied, sets, clipping);
  for (size_t i = 0; i < sets.size(); ++i) {
    const UpdateSet& set = sets[i];
    if (described.composed) {
      apply_composed(described, set, applied[i], scalars);
    } else {
      ops::apply_update(described.rule, {.gradients = applied[i],
                                         .variables = set.variables,
                                         .slots = rule_slots(set, described.every),
                                         .rate = scalars.rate,
                                         .step = scalars.step,
                                         .condition = scalars.condition});
    }
    if (described.every == 1) continue;
    Variables accumulators;
    for (const Variables& own : set.slots) accumulators.push_back(own[0]);
    ops::apply_update({"accumulate_update", {{"every", described.every}}},
                      {.gradients = set.gradients,
                       .variables = accumulators,
                       .rate = scalars.rate,
                       .step = scalars.step,
                       .condition = scalars.condition});
  }
}

void apply_constraints(const Variables& variables, const Tensor& condition) {
  for (const Variable& variable : variables) {
    const Constraint constraint = constraint_of(variable);
    if (!constraint) continue;
    const Tensor now = variable.value();
    const Tensor projected = constraint(now);
    if (type_of(projected) != type_of(now)) {
      throw InvalidArgument(fmt::format("constraint: it makes {} of variable '{}', {}",
                                        type_of(projected).str(), variable.name(),
                                        type_of(now).str()));
    }
    assign_everywhere(variable, where(condition, projected, now));
  }
}

void push(const std::shared_ptr<OptimizerBody>& optimizer, const Tensors& gradients,
          const Variables& variables, const Tensor& condition, distribute::GradientSink& sink) {
  const OptimizerDescription& described = optimizer->described;
  const auto is_constrained = [](const Variable& v) { return bool(constraint_of(v)); };
  if (described.composed || std::ranges::any_of(variables, is_constrained)) {
    throw Unimplemented(fmt::format(
        "{}: {} under a ParameterServerStrategy: a server has some elements of a variable only",
        described.name, described.composed ? "a rule of one's own" : "constraints"));
  }
  const bool by_norm = described.clipping.norm || described.clipping.global_norm;
  const bool is_half = std::ranges::any_of(
      gradients, [](const Tensor& g) { return size_of(g.dtype()) < sizeof(float); });
  if (by_norm && (described.every > 1 || (sink.shares() > 1 && is_half))) {
    throw Unimplemented(fmt::format(
        "{}: clipnorm and global_clipnorm under a ParameterServerStrategy, with gradients that {}; "
        "clipvalue is accepted",
        described.name, described.every > 1 ? "accumulate" : "have 16 bits"));
  }
  const bool clips_here = by_norm && sink.shares() == 1;
  Tensors given;
  Tensors rows;
  for (const Tensor& gradient : gradients) {
    const bool of_rows = !clips_here && goes_by_rows(gradient);
    given.push_back(of_rows ? gradient.row_slices().values : op::with_all_rows(gradient));
    rows.push_back(of_rows ? gradient.row_slices().indices : Tensor());
  }
  if (clips_here) given = clipped(given, described.clipping);
  distribute::NormLimits limits;
  if (!clips_here) limits = {described.clipping.norm, described.clipping.global_norm};
  sink.take({.update = std::make_shared<OptimizerOnServer>(optimizer),
             .gradients = std::move(given),
             .rows = std::move(rows),
             .variables = variables,
             .condition = condition,
             .limits = limits});
}

}  // namespace tandem::keras::optimizers
