#include "tandem/optimizers.h"

#include <fmt/format.h>

#include "collective/collective.h"
#include "keras/tracked_slots.h"
#include "ops/optimizer.h"
#include "tandem/error.h"

namespace tandem::keras::optimizers {
namespace {

void check(const Tensors& gradients, const Variables& variables) {
  if (gradients.size() != variables.size()) {
    throw InvalidArgument(fmt::format("apply_gradients: {} gradients for {} variables",
                                      gradients.size(), variables.size()));
  }
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) {
      throw InvalidArgument(
          fmt::format("apply_gradients: variable '{}' has no gradient; the loss does not depend on "
                      "it, leave it out",
                      variables[i].name()));
    }
    if (gradients[i].shape() != variables[i].shape() ||
        gradients[i].dtype() != variables[i].dtype()) {
      throw InvalidArgument(fmt::format("apply_gradients: variable '{}' is {}{}, its gradient {}{}",
                                        variables[i].name(), name_of(variables[i].dtype()),
                                        variables[i].shape().str(), name_of(gradients[i].dtype()),
                                        gradients[i].shape().str()));
    }
  }
}

}  // namespace

Adam::Adam(double learning_rate, const AdamOptions& options)
    : Adam("adam", learning_rate, options, 0) {}

Adam::Adam(const std::string& name, double learning_rate, const AdamOptions& options,
           double weight_decay)
    : options_(options),
      weight_decay_(weight_decay),
      iterations_(Tensor(int64_t{0}), {.name = name + "/iterations",
                                       .trainable = false,
                                       .aggregation = VariableAggregation::only_first_replica}),
      learning_rate_(Tensor(learning_rate), {.name = name + "/learning_rate", .trainable = false}),
      slots_(std::make_shared<TrackedSlots>(
          *this, iterations_, learning_rate_,
          std::vector<TrackedSlots::Slot>{{"m", "_momentums"}, {"v", "_velocities"}})) {}

void Adam::apply_gradients(const Tensors& gradients, const Variables& variables) const {
  check(gradients, variables);
  slots_->track(variables);
  ops::adam_update(collective::all_reduce(gradients), variables, iterations_, learning_rate_,
                   {options_.beta_1, options_.beta_2, options_.epsilon, weight_decay_});
  iterations_.assign_add(Tensor(int64_t{1}));
}

AdamW::AdamW(double learning_rate, const AdamWOptions& options)
    : Adam("adamw", learning_rate,
           {.beta_1 = options.beta_1, .beta_2 = options.beta_2, .epsilon = options.epsilon},
           options.weight_decay) {}

}  // namespace tandem::keras::optimizers
