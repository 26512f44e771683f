#include "keras/optimizers/optimizer_update.h"

#include <fmt/format.h>

#include <algorithm>

#include "op/apply.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem::keras::optimizers {
namespace {

/// The gradients with those of the steps before, divided by the number of steps.
Tensors mean(const UpdateSet& set, int64_t steps) {
  Tensors results;
  for (size_t i = 0; i < set.gradients.size(); ++i) {
    results.push_back((set.slots[i][0].value() + set.gradients[i]) / static_cast<double>(steps));
  }
  return results;
}

/// Over all sets at once.
void clip_in_place(std::vector<Tensors>& gradients, const Clipping& clipping) {
  Tensors flat;
  for (const Tensors& set : gradients) flat.insert(flat.end(), set.begin(), set.end());
  flat = clipped(flat, clipping);
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

  int64_t steps() const override { return optimizer_->iterations.value().item<int64_t>(); }

  void apply(const Operands& operands) const override {
    Variables variables;
    std::vector<Variables> slots;
    for (size_t i = 0; i < operands.variables.size(); ++i) {
      const auto elements = [&](const Variable& whole) {
        return distribute::elements_of(whole, operands.begins[i],
                                       operands.gradients[i].shape().count());
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
  const auto space = [](const Variable& v) {
    return &v.body()->range.block->components()[0]->device()->space();
  };
  return variable.dtype() == variables[0].dtype() && space(variable) == space(variables[0]);
}

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

void update(const OptimizerDescription& described, const std::vector<UpdateSet>& sets,
            const Clipping& clipping, const UpdateScalars& scalars) {
  std::vector<Tensors> applied;
  for (const UpdateSet& set : sets) {
    applied.push_back(described.every == 1 ? set.gradients : mean(set, described.every));
  }
  clip_in_place(applied, clipping);
  for (size_t i = 0; i < sets.size(); ++i) {
    const UpdateSet& set = sets[i];
    ops::apply_update(described.rule, {.gradients = applied[i],
                                       .variables = set.variables,
                                       .slots = rule_slots(set, described.every),
                                       .rate = scalars.rate,
                                       .step = scalars.step,
                                       .condition = scalars.condition});
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

void push(const std::shared_ptr<OptimizerBody>& optimizer, const Tensors& gradients,
          const Variables& variables, const Tensor& condition, distribute::GradientSink& sink) {
  const OptimizerDescription& described = optimizer->described;
  const bool by_norm = described.clipping.norm || described.clipping.global_norm;
  if (by_norm && (sink.shares() > 1 || described.every > 1)) {
    throw Unimplemented(fmt::format(
        "{}: clipnorm and global_clipnorm under a ParameterServerStrategy, with {}: the gradients "
        "meet at the servers, none of which has all of them; clipvalue is accepted",
        described.name,
        described.every > 1 ? "gradients that accumulate" : "workers that share batches"));
  }
  Tensors given;
  Tensors rows;
  for (const Tensor& gradient : gradients) {
    const bool of_rows = !by_norm && goes_by_rows(gradient);
    given.push_back(of_rows ? gradient.row_slices().values : op::with_all_rows(gradient));
    rows.push_back(of_rows ? gradient.row_slices().indices : Tensor());
  }
  if (by_norm) given = clipped(given, described.clipping);
  sink.take({.update = std::make_shared<OptimizerOnServer>(optimizer),
             .gradients = std::move(given),
             .rows = std::move(rows),
             .variables = variables,
             .condition = condition});
}

}  // namespace tandem::keras::optimizers
