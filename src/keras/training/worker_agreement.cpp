#include "keras/training/worker_agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <csignal>
#include <limits>
#include <numeric>
#include <utility>

#include "distribute/strategy_body.h"
#include "tandem/error.h"
#include "tandem/log.h"

namespace tandem::keras {
namespace {

using distribute::kStepPhases;
using distribute::StepPhase;
using std::chrono::nanoseconds;

std::atomic<bool> was_terminated{false};
std::atomic<bool> was_asked_to_save{false};
struct sigaction former_term {};
struct sigaction former_usr1 {};

Variable rate_of(const optimizers::Optimizer& optimizer) {
  try {
    return optimizer.learning_rate();
  } catch (const FailedPrecondition&) {
    return {};  // A schedule has the same on every process.
  }
}

void note_signal(int number) { (number == SIGTERM ? was_terminated : was_asked_to_save) = true; }

}  // namespace

WorkerAgreement::WorkerAgreement(const Trainer& trainer)
    : workers_(trainer.strategy().body().workers()),
      rate_(rate_of(trainer.options().optimizer)),
      word_(workers_ == nullptr ? 1 : workers_->size()) {
  if (!has_others()) return;
  lags_.resize(static_cast<size_t>(workers_->size()));
  workers_->set_told_by_caller(true);
  std::ranges::fill(workers_->agreement().own, 0);
  workers_->agreement().waited = {};
  was_terminated = false;
  was_asked_to_save = false;
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, &former_term);
  sigaction(SIGUSR1, nullptr, &former_usr1);
  replaces_usr1_ = former_usr1.sa_handler == SIG_DFL;
  if (replaces_usr1_) sigaction(SIGUSR1, &action, nullptr);
}

WorkerAgreement::~WorkerAgreement() {
  if (!has_others()) return;
  workers_->set_told_by_caller(false);
  std::ranges::fill(workers_->agreement().own, 0);
  sigaction(SIGTERM, &former_term, nullptr);
  if (replaces_usr1_) sigaction(SIGUSR1, &former_usr1, nullptr);
}

void WorkerAgreement::say(int64_t next_rows, std::chrono::nanoseconds input) {
  if (!has_others()) return;
  graph::Agreement& agreement = workers_->agreement();
  const int rank = workers_->rank();
  if (was_asked_to_save.exchange(false)) asks_to_save_ = true;
  agreement.own[word_.stop()] = asks_to_stop_ ? 1 : 0;
  agreement.own[word_.save()] = asks_to_save_ ? 1 : 0;
  agreement.own[word_.next_rows(rank)] = next_rows;
  agreement.own[word_.terminated(rank)] = was_terminated ? 1 : 0;
  agreement.own[word_.wait(rank)] = std::exchange(agreement.waited, nanoseconds{0}).count();
  for (size_t p = 0; p < kStepPhases; ++p) {
    agreement.own[word_.phase(static_cast<StepPhase>(p), rank)] = last_phases_[p].count();
  }
  note_phases_before(input);
  if (rate_.defined()) {
    agreement.own[word_.rate(rank)] = std::bit_cast<int64_t>(rate_.value().item<double>());
  }
}

/// Between what was last heard and now there were callbacks, and data were waited for.
void WorkerAgreement::note_phases_before(nanoseconds input) {
  const auto time_of = [&](StepPhase phase) -> nanoseconds& {
    return phases_[static_cast<size_t>(phase)];
  };
  said_ = Clock::now();
  time_of(StepPhase::data) = input;
  if (heard_ == Clock::time_point{}) return;
  time_of(StepPhase::callbacks) = std::max(said_ - heard_ - input, nanoseconds{0});
}

/// The step that has just run computed until its sums began, and updated from their end on, which
/// counts for the next step's.
void WorkerAgreement::note_phases_of_run() {
  const graph::Agreement& agreement = workers_->agreement();
  heard_ = Clock::now();
  last_phases_ = std::exchange(phases_, {});
  if (agreement.arrived < said_) return;  // It was a meeting between steps.
  const nanoseconds earlier_sums = agreement.waited - (agreement.left - agreement.arrived);
  last_phases_[static_cast<size_t>(StepPhase::compute)] =
      std::max(agreement.arrived - said_ - earlier_sums, nanoseconds{0});
  phases_[static_cast<size_t>(StepPhase::update)] = heard_ - agreement.left;
}

int64_t WorkerAgreement::heard(size_t place) const { return workers_->agreement().all[place]; }

bool WorkerAgreement::hear() {
  if (!has_others()) return false;
  check_rates();
  note_phases_of_run();
  note_lags();
  saves_ = heard(word_.save()) > 0;
  if (saves_) asks_to_save_ = false;
  for (int rank = 0; rank < workers_->size() && !terminated_; ++rank) {
    if (heard(word_.terminated(rank)) == 0) continue;
    terminated_ = rank;
    saves_ = true;
  }
  return heard(word_.stop()) > 0 || terminated_;
}

std::vector<int64_t> WorkerAgreement::rows_of_all() const {
  std::vector<int64_t> rows;
  for (int rank = 0; has_others() && rank < workers_->size(); ++rank) {
    rows.push_back(heard(word_.next_rows(rank)));
  }
  return rows;
}

bool WorkerAgreement::meet() {
  if (!has_others()) return false;
  say();
  graph::Agreement& agreement = workers_->agreement();
  agreement.all = agreement.own;
  const op::Piece piece{agreement.all.data(), static_cast<int64_t>(agreement.all.size()),
                        DType::int64};
  workers_->group().run({.pieces = {&piece, 1}, .name = "end of the epoch"});
  return hear();
}

void WorkerAgreement::check_rates() const {
  for (int rank = 1; rank < workers_->size(); ++rank) {
    const int64_t first = heard(word_.rate(0));
    const int64_t own = heard(word_.rate(rank));
    if (own == first) continue;
    throw InvalidArgument(fmt::format(
        "fit: the learning rate is {} on {} and {} on {}; a callback that sets it must do so on "
        "every process",
        std::bit_cast<double>(own), workers_->group().describe(rank), std::bit_cast<double>(first),
        workers_->group().describe(0)));
  }
}

/// How much slower a rank was in each phase than the quickest there.
std::array<double, kStepPhases> WorkerAgreement::slower_phases(int rank) const {
  std::array<double, kStepPhases> slower{};
  for (size_t p = 0; p < kStepPhases; ++p) {
    const auto phase = static_cast<StepPhase>(p);
    int64_t shortest = std::numeric_limits<int64_t>::max();
    for (int r = 0; r < workers_->size(); ++r) {
      shortest = std::min(shortest, heard(word_.phase(phase, r)));
    }
    slower[p] = static_cast<double>(heard(word_.phase(phase, rank)) - shortest);
  }
  return slower;
}

/// All leave an exchange at about the same time: who has waited least came last. A rank's lag is
/// that of the phases in which it was slower than others, each in proportion.
void WorkerAgreement::note_lags() {
  int64_t longest = 0;
  int slowest = 0;
  for (int rank = 0; rank < workers_->size(); ++rank) {
    const int64_t wait = heard(word_.wait(rank));
    if (wait == 0) return;  // Nobody has waited before the first step, nor between two epochs.
    longest = std::max(longest, wait);
    if (wait < heard(word_.wait(slowest))) slowest = rank;
  }
  for (int rank = 0; rank < workers_->size(); ++rank) {
    const double seconds = static_cast<double>(longest - heard(word_.wait(rank))) * 1e-9;
    Lag& lag = lags_[static_cast<size_t>(rank)];
    lag.all += seconds;
    const auto slower = slower_phases(rank);
    const double sum = std::accumulate(slower.begin(), slower.end(), 0.0);
    for (size_t p = 0; p < kStepPhases && sum > 0; ++p) {
      lag.phases[p] += seconds * slower[p] / sum;
    }
  }
  ++lags_[static_cast<size_t>(slowest)].times_last;
  ++steps_;
}

std::string WorkerAgreement::lags() const {
  if (!has_others() || steps_ == 0) return {};
  const auto steps = static_cast<double>(steps_);
  const auto mean_us = [&](double seconds) { return seconds / steps * 1e6; };
  std::string text = "arrival at the steps' exchanges, later than the first:\n";
  for (int rank = 0; rank < workers_->size(); ++rank) {
    const Lag& lag = lags_[static_cast<size_t>(rank)];
    const auto in = [&](StepPhase phase) {
      return mean_us(lag.phases[static_cast<size_t>(phase)]);
    };
    text += fmt::format(
        "  {}: {:.0f} us (data {:.0f}, compute {:.0f}, update {:.0f}, callbacks {:.0f}); last in "
        "{:.0f} % of the steps\n",
        workers_->group().describe(rank), mean_us(lag.all), in(StepPhase::data),
        in(StepPhase::compute), in(StepPhase::update), in(StepPhase::callbacks),
        100.0 * static_cast<double>(lag.times_last) / steps);
  }
  return text;
}

/// Returns when the ends of those that were sent SIGTERM are known: they are the cause of the
/// others' ends, and not the other way round.
void WorkerAgreement::wait_for_ends() const {
  try {
    workers_->group().gather_texts("the end by SIGTERM", "");
  } catch (const Error&) {  // They do not come.
  }
}

void WorkerAgreement::end_if_terminated(int64_t steps) const {
  if (!terminated_) return;
  const std::string text = fmt::format("fit: {} got SIGTERM: all saved at step {} and end",
                                       workers_->group().describe(*terminated_), steps);
  if (!was_terminated) {
    wait_for_ends();
    throw Unavailable(text);
  }
  logging::write(logging::Level::warning, text);
  std::signal(SIGTERM, SIG_DFL);
  std::raise(SIGTERM);
}

void WorkerAgreement::leave_by_error() const {
  if (has_others()) workers_->abort_with_current_error();
}

}  // namespace tandem::keras
