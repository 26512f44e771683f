#include "keras/training/worker_agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <csignal>
#include <limits>
#include <utility>

#include "distribute/strategy_body.h"
#include "tandem/error.h"
#include "tandem/log.h"

namespace tandem::keras {
namespace {

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
  inputs_.resize(lags_.size());
  last_.resize(lags_.size());
  std::ranges::fill(workers_->agreement().own, 0);
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
  agreement.own[word_.input(rank)] = std::exchange(last_input_, input).count();
  agreement.own[word_.terminated(rank)] = was_terminated ? 1 : 0;
  agreement.own[word_.wait(rank)] = agreement.waited.count();
  if (rate_.defined()) {
    agreement.own[word_.rate(rank)] = std::bit_cast<int64_t>(rate_.value().item<double>());
  }
}

int64_t WorkerAgreement::heard(size_t place) const { return workers_->agreement().all[place]; }

bool WorkerAgreement::hear() {
  if (!has_others()) return false;
  check_rates();
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

/// All leave an exchange at about the same time: who has waited least came last.
void WorkerAgreement::note_lags() {
  int64_t longest = 0;
  int64_t shortest_input = std::numeric_limits<int64_t>::max();
  int slowest = 0;
  for (int rank = 0; rank < workers_->size(); ++rank) {
    const int64_t wait = heard(word_.wait(rank));
    if (wait == 0) return;  // Nobody has waited before the first step.
    longest = std::max(longest, wait);
    shortest_input = std::min(shortest_input, heard(word_.input(rank)));
    if (wait < heard(word_.wait(slowest))) slowest = rank;
  }
  for (int rank = 0; rank < workers_->size(); ++rank) {
    const int64_t lag = longest - heard(word_.wait(rank));
    const int64_t input = std::min(lag, heard(word_.input(rank)) - shortest_input);
    lags_[static_cast<size_t>(rank)] += static_cast<double>(lag) * 1e-9;
    inputs_[static_cast<size_t>(rank)] += static_cast<double>(input) * 1e-9;
  }
  ++last_[static_cast<size_t>(slowest)];
  ++steps_;
}

std::string WorkerAgreement::lags() const {
  if (!has_others() || steps_ == 0) return {};
  std::string text = "arrival at the steps' exchanges, later than the first:\n";
  for (int rank = 0; rank < workers_->size(); ++rank) {
    const auto place = static_cast<size_t>(rank);
    const auto mean_us = [&](double seconds) {
      return seconds / static_cast<double>(steps_) * 1e6;
    };
    text += fmt::format(
        "  {}: {:.0f} us, of which it waited {:.0f} us for its data; last in {:.0f} % of the "
        "steps\n",
        workers_->group().describe(rank), mean_us(lags_[place]), mean_us(inputs_[place]),
        100.0 * static_cast<double>(last_[place]) / static_cast<double>(steps_));
  }
  return text;
}

void WorkerAgreement::end_if_terminated(int64_t steps) const {
  if (!terminated_) return;
  const std::string text = fmt::format("fit: {} got SIGTERM: all saved at step {} and end",
                                       workers_->group().describe(*terminated_), steps);
  if (!was_terminated) throw Unavailable(text);
  logging::write(logging::Level::warning, text);
  std::signal(SIGTERM, SIG_DFL);
  std::raise(SIGTERM);
}

void WorkerAgreement::leave_by_error() const {
  if (has_others()) workers_->abort_with_current_error();
}

}  // namespace tandem::keras
