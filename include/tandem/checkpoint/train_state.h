/// All that a training run goes on from, so that a run that was stopped and restored gives the same
/// numbers, bit for bit, as one that was not: the parts that the caller names (model, optimizer,
/// position in the data), the step, the epoch, the state of random numbers, and which provider
/// table chose the kernels (providers.h). Restored under another table it warns: the numbers will
/// differ in their last bits.
///
///   train::TrainState state({{"model", model}, {"optimizer", optimizer}});
///   train::Checkpoint checkpoint(state);
///
/// A cheap handle; copies are the same state. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>

#include "tandem/trackable.h"

namespace tandem::train {

class TANDEM_API TrainState : public Trackable {
 public:
  /// The names "step", "epoch", "random" and "providers" are its own. Throws InvalidArgument when a
  /// part has one of them, or two have the same.
  explicit TrainState(const NamedTrackables& parts);

  int64_t step() const { return counters_->step; }
  void set_step(int64_t step) const { counters_->step = step; }
  int64_t epoch() const { return counters_->epoch; }
  void set_epoch(int64_t epoch) const { counters_->epoch = epoch; }

 private:
  struct Counters {
    int64_t step = 0;
    int64_t epoch = 0;
  };
  std::shared_ptr<Counters> counters_ = std::make_shared<Counters>();
};

/// The global seed and the place in its sequence of random numbers, for the whole process.
TANDEM_API Trackable random_state();

}  // namespace tandem::train
