/// How a training with parameter servers runs, as the strategy and `fit` see it: steps are
/// scheduled, and waited for. One thread at a time schedules.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "distribute/server/staleness_statistics.h"
#include "tandem/function.h"
#include "tandem/strategy.h"

namespace tandem::distribute {

/// A batch of a data set: the element at `batch` of an epoch.
struct BatchNumber {
  int64_t epoch = 0;
  int64_t batch = 0;
};

/// What becomes of a step that was scheduled.
struct StepOutcome {
  std::vector<Tensors> results;  ///< The results of each share, once the step is done.
  bool is_done = false;
  bool is_lost = false;  ///< It was forgotten after an error of another step.
};
using StepOutcomePtr = std::shared_ptr<const StepOutcome>;

class ServerTraining {
 public:
  virtual ~ServerTraining();

  /// Whether `f` applies gradients. It is compiled for such arguments.
  virtual bool trains(const FlatFunction& f, std::span<const PerReplica> arguments) = 0;

  /// Has some worker, or where they train in step all of them, do `f`. Waits while workers have
  /// enough to do. Throws what a worker threw since the last join.
  virtual StepOutcomePtr schedule(const FlatFunction& f, PerReplicas arguments,
                                  const BatchNumber& number = {}) = 0;

  /// Waits until all that was scheduled is done and applied, and variables have the servers'
  /// values. Throws what a worker threw: what was not done by then is forgotten. Throws
  /// DeadlineExceeded where no step ends for long.
  virtual void join() = 0;
  virtual bool is_done() const = 0;

  /// The results of a step by share, after waiting for it. Throws what a worker threw.
  virtual const std::vector<Tensors>& results_of(const StepOutcome& outcome) = 0;

  /// Calls `read`, which reads variables that steps assign, while no server changes them.
  virtual void read_quietly(const std::function<void()>& read) = 0;

  /// How stale updates were, since the training began.
  virtual StalenessStatistics statistics() const = 0;

  /// Who there is and who has what, for people.
  virtual std::string explain() const = 0;

  /// One step from beginning to end: its results by share.
  PerReplicas run(const FlatFunction& f, PerReplicas arguments);
};

}  // namespace tandem::distribute
