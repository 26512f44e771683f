/// An optimizer's variables under the names that Keras gives them, so that its checkpoints and ours
/// are the same: `_variables` lists the iterations, the rate and then the slots; the slots are also
/// in lists of their own, and the trained variables in `_trainable_variables`.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "tandem/trackable.h"

namespace tandem::keras::optimizers {

class TrackedSlots {
 public:
  struct Slot {
    std::string name;    ///< "momentum"
    std::string list;    ///< What checkpoints call the list: "_momentums".
    double initial = 0;  ///< The first value of each element.
  };
  /// `_variables` has the slots of the first group for each variable in turn, then the next
  /// group's.
  using Groups = std::vector<std::vector<Slot>>;

  /// `learning_rate` is float64, Keras's float32: see HostState<double>. It is undefined where a
  /// schedule sets the rate. `name` is the optimizer's.
  TrackedSlots(const Trackable& optimizer, const std::string& name, const Variable& iterations,
               const Variable& learning_rate, Groups groups);

  /// Makes and tracks the slots of those that are new.
  void track(const Variables& variables);

  /// The slots of a variable that is tracked, group by group.
  const Variables& of(const Variable& variable) const;

  /// All that `_variables` lists.
  const Variables& all() const { return all_; }

 private:
  void append_to_all(const Variable& variable, const Trackable& tracked);
  void add_slot(const Variable& variable, const Slot& slot, const Trackable& list);

  const std::string prefix_;  // Slots are this optimizer's own.
  const Groups groups_;
  Trackable variables_;
  Trackable trained_;
  std::vector<Trackable> lists_;  // The list of each slot, group by group.
  Variables all_;
  // The slots of each variable, which trained_ holds.
  std::unordered_map<const void*, Variables> slots_;
};

}  // namespace tandem::keras::optimizers
