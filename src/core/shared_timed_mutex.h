/// A lock that many may hold to read, or one to write, waited for with a deadline as a TimedMutex
/// is. Who waits to write lets no further readers in. Not recursive.
#pragma once

#include "core/signal.h"

namespace tandem::core {

class SharedTimedMutex {
 public:
  bool try_lock() {
    int nobody = 0;
    return holders_.compare_exchange_strong(nobody, kWriter);
  }
  bool try_lock_shared() {
    if (writers_waiting_.load() > 0) return false;
    int readers = holders_.load();
    while (readers != kWriter) {
      if (holders_.compare_exchange_weak(readers, readers + 1)) return true;
    }
    return false;
  }

  /// False when the deadline has passed.
  bool try_lock_for(std::chrono::nanoseconds patience) {
    ++writers_waiting_;
    const bool locked = wait(patience, [this] { return try_lock(); });
    // Readers may have waited for this writer, which has not come.
    if (--writers_waiting_ == 0 && !locked) released_.advance();
    return locked;
  }
  bool try_lock_shared_for(std::chrono::nanoseconds patience) {
    return wait(patience, [this] { return try_lock_shared(); });
  }

  void unlock() {
    holders_.store(0);
    wake();
  }
  void unlock_shared() {
    if (holders_.fetch_sub(1) == 1) wake();
  }

 private:
  static constexpr int kWriter = -1;

  template <class TryLock>
  bool wait(std::chrono::nanoseconds patience, TryLock try_lock) {
    const auto deadline = Clock::now() + patience;
    ++waiting_;
    bool locked = false;
    for (bool in_time = true; in_time;) {
      const uint32_t seen = released_.value();
      locked = try_lock();
      if (locked) break;
      in_time = released_.wait_past(seen, deadline);
    }
    --waiting_;
    return locked;
  }

  /// Sequentially consistent with wait(): either the waiter finds the lock free, or we find the
  /// waiter.
  void wake() {
    if (waiting_.load() > 0) released_.advance();
  }

  alignas(64) std::atomic<int> holders_{0};  // Readers, or kWriter.
  std::atomic<int> writers_waiting_{0};
  std::atomic<int> waiting_{0};
  Signal released_;
};

}  // namespace tandem::core
