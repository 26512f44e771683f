#include "core/dealing.h"

#include <algorithm>

namespace tandem::core {
namespace {

// More hosts are worth having when they bring so much more: to stay with them, and to go back to
// them. They also take what others could use, and two caches make the same work look longer.
constexpr double kWorthKeeping = 1.15;
constexpr double kWorthTaking = 1.3;

// A trial may cost a window's time twice; it is made at most once in so many windows.
constexpr int kWindowsPerTrial = 10;

}  // namespace

std::vector<int> Dealing::halvings(int hosts) {
  std::vector<int> all{hosts};
  while (all.back() > 1) all.push_back((all.back() + 1) / 2);
  return all;
}

Dealing::Choice Dealing::next(Time now) const {
  if (hosts_.size() == 1 || now < next_window_) return {level_, false};
  return {trial_.value_or(level_), true};
}

void Dealing::add(Duration elapsed, Duration work, Time now) {
  elapsed_ += elapsed;
  work_ += work;
  if (elapsed_ < kWindow) return;
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

/// After a window of the level itself.
void Dealing::plan_trial(Time now) {
  const bool has_fewer = level_ + 1 < hosts_.size();
  if (now < next_trial_) {
    rest(now);
  } else if (has_fewer && rate_ < kWorthKeeping * hosts_[level_ + 1]) {
    trial_ = level_ + 1;
  } else if (level_ > 0) {
    trial_ = level_ - 1;
  } else {
    rest(now);
  }
}

/// After a window of another level.
void Dealing::judge(size_t trial, double rate, Time now) {
  const bool fewer = trial > level_;
  const bool better = fewer ? rate * kWorthKeeping > rate_ : rate > rate_ * kWorthTaking;
  const bool had_held = now - changed_ >= 4 * patience_;
  trial_.reset();
  if (better) {
    level_ = trial;
    changed_ = now;
    if (!fewer) return;  // They are watched at once.
  }
  // A trial that failed was in vain, and so was one whose success did not last.
  patience_ = better && had_held ? kLeastPatience : std::min(2 * patience_, kMostPatience);
  next_trial_ = now + std::max(patience_, kWindowsPerTrial * window_);
  rest(now);
}

void Dealing::rest(Time now) { next_window_ = level_ > 0 ? next_trial_ : now + kRest; }

}  // namespace tandem::core
