/// An optimizer's variables under the names that Keras gives them, so that its checkpoints and ours
/// are the same: `_variables` lists the iterations, the rate and then the slots of each variable;
/// the slots are also in lists of their own, and the trained variables in `_trainable_variables`.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "tandem/trackable.h"

namespace tandem::keras::optimizers {

class TrackedSlots {
 public:
  struct Slot {
    std::string name;  ///< In the store: "m".
    std::string list;  ///< In checkpoints: "_momentums".
  };

  /// `learning_rate` is float64, Keras's float32: both are saved. A saved float32 that the rate
  /// rounds to leaves it as it is.
  TrackedSlots(const Trackable& optimizer, const Variable& iterations,
               const Variable& learning_rate, std::vector<Slot> slots);

  /// Tracks the slots of those that are new.
  void track(const Variables& variables);

 private:
  std::vector<Slot> slots_;
  Trackable variables_;
  Trackable trained_;
  std::vector<Trackable> lists_;
  std::unordered_set<const void*> known_;  // All are in trained_, which holds them.
};

}  // namespace tandem::keras::optimizers
