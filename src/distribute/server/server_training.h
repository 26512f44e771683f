/// How a training with parameter servers runs, as the strategy and `fit` see it: steps are
/// scheduled, and waited for. One thread at a time schedules. Before a checkpoint is saved all that
/// was scheduled is waited for, so that it has the values of that moment.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/keepers.h"
#include "distribute/range/staleness_statistics.h"
#include "tandem/distribute/strategy.h"
#include "tandem/function.h"

namespace tandem::distribute {

class ServerStep;

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

/// The batch of a number; nothing where there is none.
using BatchAt = std::function<std::optional<PerReplicas>(const BatchNumber& number)>;

class ServerTraining : public checkpoint::Keepers {
 public:
  ~ServerTraining() override;

  void settle() override { join(); }

  /// Whether this process decides what is done. Others follow one that does: workers do the steps
  /// that it hands out, and servers serve.
  virtual bool leads() const { return true; }

  /// Is called where something begins that all tasks do together, such as a fit. All have the same
  /// random numbers from here on.
  virtual void meet() {}
  /// Whether that has begun and not ended: what happens now is part of it.
  virtual bool is_met() const { return false; }
  /// Tells those who follow that it is over and what came of it, or what was thrown.
  virtual void end(const std::string& /*result*/, const std::string& /*error*/ = {}) {}

  /// What a task does that follows: its part of the steps `f`, until the task that leads has ended.
  /// `first` is the number of some batch. Returns the result that was told, and throws Aborted with
  /// the error. Without a function it only waits.
  virtual std::string follow(const FlatFunction& f, const BatchNumber& first,
                             const BatchAt& batch_at);
  virtual std::string follow();

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

  /// Joins where something was scheduled since the last join: is called before what reads variables
  /// and trains none, so that it has the values of one time.
  virtual void bring_variables() = 0;

  /// The results of a step by share, after waiting for it. Throws what a worker threw.
  virtual const std::vector<Tensors>& results_of(const StepOutcome& outcome) = 0;

  /// Calls `read`, which reads variables that steps assign, while no server changes them.
  virtual void read_quietly(const std::function<void()>& read) = 0;

  /// Ends threads, and what this process does with others; its end does, too. What trains throws
  /// FailedPrecondition from then on.
  virtual void close() = 0;

  /// How stale updates were, since the training began.
  virtual StalenessStatistics statistics() const = 0;

  /// Who there is and who has what, for people.
  virtual std::string explain() const = 0;

  /// One step from beginning to end: its results by share.
  PerReplicas run(const FlatFunction& f, PerReplicas arguments);

 protected:
  /// Throws FailedPrecondition where it was closed.
  static void check_open(bool is_closed);
  [[noreturn]] static void throw_two_functions();
};

}  // namespace tandem::distribute
