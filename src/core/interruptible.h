/// How waits and loops look for a request to end: see tandem/interruption.h.
#pragma once

#include <algorithm>
#include <chrono>

#include "core/signal.h"
#include "tandem/interruption.h"

namespace tandem::core {

inline constexpr std::chrono::milliseconds kLookEvery{100};

/// `wait(until)`, which returns whether what it waits for has come, until `deadline`, with a look
/// in between. Returns false when the deadline has passed.
template <class Wait>
bool wait_interruptibly(Clock::time_point deadline, Wait&& wait) {
  while (true) {
    const auto until = std::min(deadline, Clock::now() + kLookEvery);
    if (wait(until)) return true;
    if (until == deadline) return false;
    interruption::look();
  }
}

/// For a loop whose rounds are short: looks only when some time has passed since the last look.
class PacedLook {
 public:
  explicit PacedLook(Clock::time_point first = {}) : next_(first) {}

  void look() {
    const auto now = Clock::now();
    if (now < next_) return;
    next_ = now + kLookEvery;
    interruption::look();
  }

 private:
  Clock::time_point next_;
};

/// This thread is a team's: it never looks, whoever leads the team does.
void leave_looking_to_others();

/// A loop in a program, whose number of iterations only a run knows, looks by this.
class LookInLoop {
 public:
  void look() {
    if (!interruption::WholeStep::is_on()) paced_.look();
  }

 private:
  PacedLook paced_{Clock::now() + kLookEvery};
};

/// While it lives, this thread looks while it waits for a device or for an answer of another task.
/// Steps wait for these too, and must not be left in the middle; so only those who want a value
/// from outside have one.
class InterruptibleWaits {
 public:
  InterruptibleWaits();
  ~InterruptibleWaits();
  InterruptibleWaits(const InterruptibleWaits&) = delete;
  InterruptibleWaits& operator=(const InterruptibleWaits&) = delete;

  static bool are_on();

 private:
  const bool former_;
};

}  // namespace tandem::core
