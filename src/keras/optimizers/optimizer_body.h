/// What an optimizer is made of.
#pragma once

#include <string>

#include "keras/optimizers/gradient_clipping.h"
#include "keras/optimizers/tracked_slots.h"
#include "ops/optimizer.h"
#include "tandem/keras/optimizers.h"

namespace tandem::keras::optimizers {

struct OptimizerDescription {
  std::string name;
  ops::UpdateRule rule;
  TrackedSlots::Groups slots;  ///< The slots, in the order in which the rule takes them.
  Clipping clipping;
  int64_t every = 1;  ///< Steps whose gradients are applied together.
  /// In place of `rule`: a composition of ops, for each variable by itself, which leaves the decay
  /// of weights to us.
  std::function<VariableUpdate(const VariableStep&)> composed{};
  double weight_decay = 0;  ///< A composed rule's.
};

struct OptimizerBody {
  OptimizerBody(const Trackable& node, const LearningRate& rate, const OptimizerDescription& d);

  /// The rate of the step after so many: a float64 scalar.
  Tensor rate_at(const Tensor& step) const;

  const OptimizerDescription described;
  const Variable iterations;
  const Variable learning_rate;  ///< Undefined where there is a schedule.
  const std::optional<schedules::LearningRateSchedule> schedule;
  TrackedSlots slots;
};

}  // namespace tandem::keras::optimizers
