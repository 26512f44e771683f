#include "keras/optimizers/tracked_slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "tensor/store.h"
#include "tensor/unmade_values.h"

namespace tandem::keras::optimizers {
namespace {

/// Adds an item at the end of a list, whose names are numbers.
void append(const Trackable& list, const Trackable& item) {
  list.track(std::to_string(list.tracked_names().size()), item);
}

Trackable tracked_rate(const Variable& rate) {
  return HostState<double>{.save = [rate] { return rate.value().item<double>(); },
                           .restore = [rate](double saved) { rate.assign(Tensor(saved)); }};
}

template <class T>
MakeElements all_equal(double value) {
  return [value](int64_t, int64_t count, void* to) {
    std::fill_n(static_cast<T*>(to), count, static_cast<T>(value));
  };
}

/// The value is set without ops, which may be traced.
void set_all(const Variable& variable, double value) {
  const bool is_double = variable.dtype() == DType::float64;
  const bool is_single_or_double = is_double || variable.dtype() == DType::float32;
  if (is_single_or_double &&
      note_unmade(variable.body()->range,
                  is_double ? all_equal<double>(value) : all_equal<float>(value))) {
    return;
  }
  const auto count = static_cast<size_t>(variable.shape().count());
  const Tensor values =
      is_double
          ? Tensor::from(std::vector<double>(count, value), variable.shape())
          : Tensor::from(std::vector<float>(count, static_cast<float>(value)), variable.shape());
  write_variable(*variable.body(), values);
}

int64_t new_id() {
  static std::atomic<int64_t> last{0};
  return ++last;
}

}  // namespace

TrackedSlots::TrackedSlots(const Trackable& optimizer, const std::string& name,
                           const Variable& iterations, const Variable& learning_rate, Groups groups)
    : prefix_(fmt::format("{}_{}/", name, new_id())), groups_(std::move(groups)) {
  // Not all versions of Keras have the same places in these two.
  optimizer.track("_variables", variables_, {.fallback = true});
  optimizer.track("_trainable_variables", trained_, {.fallback = true});
  optimizer.track("_iterations", iterations);
  optimizer.track("iterations", iterations, {.restore_only = true});
  append_to_all(iterations, iterations);
  if (learning_rate.defined()) {
    const Trackable rate = tracked_rate(learning_rate);
    optimizer.track("_learning_rate", rate);
    optimizer.track("_learning_rate_float64", learning_rate, {.restore_only = true});
    append_to_all(learning_rate, rate);
  }
  for (const auto& group : groups_) {
    for (const Slot& slot : group) optimizer.track(slot.list, lists_.emplace_back());
  }
}

void TrackedSlots::track(const Variables& variables) {
  Variables added;
  for (const Variable& variable : variables) {
    if (!slots_.try_emplace(variable.body().get()).second) continue;
    added.push_back(variable);
    append(trained_, variable);
  }
  size_t first = 0;
  for (const auto& group : groups_) {
    for (const Variable& variable : added) {
      for (size_t i = 0; i < group.size(); ++i) add_slot(variable, group[i], lists_[first + i]);
    }
    first += group.size();
  }
}

const Variables& TrackedSlots::of(const Variable& variable) const {
  return slots_.at(variable.body().get());
}

void TrackedSlots::append_to_all(const Variable& variable, const Trackable& tracked) {
  all_.push_back(variable);
  append(variables_, tracked);
}

void TrackedSlots::add_slot(const Variable& variable, const Slot& slot, const Trackable& list) {
  const Variable made = slot_variable(variable, prefix_ + slot.name);
  if (slot.initial != 0) set_all(made, slot.initial);
  slots_[variable.body().get()].push_back(made);
  append(list, made);
  append_to_all(made, made);
}

}  // namespace tandem::keras::optimizers
