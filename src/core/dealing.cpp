#include "core/dealing.h"

#include <algorithm>

namespace tandem::core {
namespace {

// More threads are worth keeping when they bring so much more than fewer, and worth going back to
// when they bring a little more than that: they also take what others could use, and in two caches
// the same work takes longer.
constexpr double kWorthKeeping = 1.1;
constexpr double kWorthTaking = 1.15;

// A trial may cost a window's time twice; it is made at most once in so many windows.
constexpr int kWindowsPerTrial = 10;

}  // namespace

std::vector<int> Dealing::halvings(int threads) {
  std::vector<int> all{threads};
  while (all.back() > 1) all.push_back((all.back() + 1) / 2);
  return all;
}

Dealing::Choice Dealing::next(Time now) const {
  if (threads_.size() == 1 || now < next_window_) return {level_, false};
  return {trial_.value_or(level_), true};
}

void Dealing::add(Duration elapsed, Duration work, Time now) {
  elapsed_ += elapsed;
  work_ += work;
  if (!is_window_over()) return;
  const double rate = static_cast<double>(work_.count()) / static_cast<double>(elapsed_.count());
  window_ = elapsed_;
  elapsed_ = work_ = Duration{0};
  if (trial_) {
    judge(*trial_, rate, now);
  } else {
    rate_ = rate;
    plan_trial(now);
  }
}

bool Dealing::is_window_over() const {
  return elapsed_ >= kWindow && (work_ >= kWindow / 2 || elapsed_ >= kLongestWindow);
}

/// Decides what is tried next, after a window of the level itself.
void Dealing::plan_trial(Time now) {
  const bool has_fewer = level_ + 1 < threads_.size();
  const bool has_more = level_ > 0;
  const bool may_need_fewer = has_fewer && rate_ < kWorthKeeping * threads_[level_ + 1];
  if (now < next_trial_ || !(may_need_fewer || has_more)) {
    rest(now);
  } else if (may_need_fewer && !(has_more && fewer_failed_)) {
    trial_ = level_ + 1;
  } else {
    trial_ = level_ - 1;
  }
}

/// Decides whether the trial's level stays, after a window of it.
void Dealing::judge(size_t trial, double rate, Time now) {
  const bool fewer = trial > level_;
  const bool better = fewer ? rate * kWorthKeeping > rate_ : rate > rate_ * kWorthTaking;
  trial_.reset();
  fewer_failed_ = fewer && !better;
  if (fewer && better) {
    // More threads that did not bring more for long were tried in vain, too.
    const bool had_held = now - changed_ >= 4 * patience_;
    patience_ = had_held ? kLeastPatience : std::min(2 * patience_, kMostPatience);
  } else if (!fewer && !better) {
    patience_ = std::min(2 * patience_, kMostPatience);
  }
  if (better) {
    level_ = trial;
    changed_ = now;
  }
  if (better && !fewer) return;  // The next window watches them.
  next_trial_ = now + std::max(level_ > 0 ? patience_ : kRest, kWindowsPerTrial * window_);
  rest(now);
}

void Dealing::rest(Time now) { next_window_ = level_ > 0 ? next_trial_ : now + kRest; }

}  // namespace tandem::core
