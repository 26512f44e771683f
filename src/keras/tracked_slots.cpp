#include "keras/tracked_slots.h"

#include "tensor/store.h"

namespace tandem::keras::optimizers {
namespace {

/// At the end of a list, whose names are numbers.
void append(const Trackable& list, const Trackable& item) {
  list.track(std::to_string(list.tracked_names().size()), item);
}

Trackable float32_rate(const Variable& rate) {
  const auto now = [rate] { return rate.value().item<double>(); };
  return HostState<float>{.save = [now] { return static_cast<float>(now()); },
                          .restore =
                              [rate, now](float saved) {
                                if (static_cast<float>(now()) == saved) return;
                                rate.assign(Tensor(static_cast<double>(saved)));
                              }};
}

}  // namespace

TrackedSlots::TrackedSlots(const Trackable& optimizer, const Variable& iterations,
                           const Variable& learning_rate, std::vector<Slot> slots)
    : slots_(std::move(slots)), lists_(slots_.size()) {
  const Trackable rate = float32_rate(learning_rate);
  optimizer.track("_variables", variables_);
  optimizer.track("_trainable_variables", trained_);
  optimizer.track("_iterations", iterations);
  optimizer.track("_learning_rate", rate);
  optimizer.track("_learning_rate_float64", learning_rate, {.optional = true});
  append(variables_, iterations);
  append(variables_, rate);
  for (size_t i = 0; i < slots_.size(); ++i) optimizer.track(slots_[i].list, lists_[i]);
}

void TrackedSlots::track(const Variables& variables) {
  for (const Variable& variable : variables) {
    if (!known_.insert(variable.body().get()).second) continue;
    append(trained_, variable);
    for (size_t i = 0; i < slots_.size(); ++i) {
      const Variable slot = slot_variable(variable, slots_[i].name);
      append(variables_, slot);
      append(lists_[i], slot);
    }
  }
}

}  // namespace tandem::keras::optimizers
