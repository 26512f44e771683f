/// A lock that is waited for with a deadline: spinning first, then parked, like everything else
/// that threads wait for. Not recursive. There is no waiting for ever.
#pragma once

#include "core/signal.h"

namespace tandem::core {

class TimedMutex {
 public:
  bool try_lock() { return !held_.exchange(true, std::memory_order_acquire); }

  /// False when the deadline has passed.
  bool try_lock_for(std::chrono::nanoseconds patience) {
    const auto deadline = Clock::now() + patience;
    while (true) {
      const uint32_t seen = released_.value();
      if (try_lock()) return true;
      if (!released_.wait_past(seen, deadline)) return false;
    }
  }

  void unlock() {
    held_.store(false, std::memory_order_release);
    released_.advance();
  }

 private:
  std::atomic<bool> held_{false};
  Signal released_;
};

}  // namespace tandem::core
