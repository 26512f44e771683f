/// How the processes that train a model together agree on when to stop and at which rate, and which
/// of them the others wait for. It costs no meeting of its own in a step: see
/// distribute/agreement_word.h. Where this process is alone it does nothing.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "distribute/agreement_word.h"
#include "distribute/worker_group.h"
#include "keras/training/trainer.h"

namespace tandem::keras {

class WorkerAgreement {
 public:
  /// While it lives, SIGTERM asks all processes to save and to stop instead of ending this one, and
  /// SIGUSR1, unless the application uses it, to save.
  explicit WorkerAgreement(const Trainer& trainer);
  ~WorkerAgreement();
  WorkerAgreement(const WorkerAgreement&) = delete;
  WorkerAgreement& operator=(const WorkerAgreement&) = delete;

  bool has_others() const { return workers_ != nullptr; }

  /// Asks all to stop: they do after the next step, or at the end of the epoch.
  void ask_to_stop() { asks_to_stop_ = true; }

  /// Asks all to save: they are told to after the next step, or at the end of the epoch.
  void ask_to_save() { asks_to_save_ = true; }

  /// What this process does, for others that wait for it.
  void note_progress(std::string_view phase, int64_t step) const {
    if (has_others()) workers_->note_progress(phase, step);
  }

  /// Says what this process wants. It is called before a step. `next_rows` is what the data say of
  /// the step after it: see EpochBatches::next_rows(). `input` is how long it waited for this
  /// step's.
  void say(int64_t next_rows = 0, std::chrono::nanoseconds input = {});

  /// Whether some process asked to stop, or was sent SIGTERM. It is called after a step, and throws
  /// InvalidArgument where processes have different learning rates.
  bool hear();

  /// Whether some process asked to save, or was sent SIGTERM, in what was last heard.
  bool saves() const { return saves_; }
  void has_saved() { saves_ = false; }

  /// What all have said of their rows in what was last heard, by rank.
  std::vector<int64_t> rows_of_all() const;

  /// Says and hears between two steps: all processes are there.
  bool meet();

  /// Ends a training that SIGTERM has stopped, when all is saved: by the signal on the process that
  /// was sent it, and by Unavailable on the others.
  void end_if_terminated(int64_t steps) const;

  /// A line about each rank's lag: by how much it came later to the steps' exchanges than the
  /// first, and in which phases it was slower; empty where there was none.
  std::string lags() const;

  /// Tells other processes of the error that is being handled.
  void leave_by_error() const;

 private:
  void wait_for_ends() const;
  using Clock = std::chrono::steady_clock;
  /// The time of each phase of a step.
  using PhaseTimes = std::array<std::chrono::nanoseconds, distribute::kStepPhases>;
  /// Seconds by which a rank came later, over all steps: in all, and by phase.
  struct Lag {
    double all = 0;
    std::array<double, distribute::kStepPhases> phases{};
    int64_t times_last = 0;
  };

  void check_rates() const;
  void note_phases_before(std::chrono::nanoseconds input);
  void note_phases_of_run();
  void note_lags();
  std::array<double, distribute::kStepPhases> slower_phases(int rank) const;
  int64_t heard(size_t place) const;

  distribute::WorkerGroup* const workers_;
  const Variable rate_;  // The learning rate; undefined where a schedule sets it.
  const distribute::AgreementWord word_;
  bool asks_to_stop_ = false;
  bool asks_to_save_ = false;
  bool saves_ = false;
  bool replaces_usr1_ = false;
  std::optional<int> terminated_;  // The first rank that was sent SIGTERM.
  std::vector<Lag> lags_;          // By rank.
  int64_t steps_ = 0;
  Clock::time_point said_{};   // When this process last said something,
  Clock::time_point heard_{};  // and when it last heard something.
  PhaseTimes phases_{};        // The times of the step that is under way,
  PhaseTimes last_phases_{};   // and of the one before.
};

}  // namespace tandem::keras
