/// A counter that one thread advances and others wait for: they spin for a while, then park.
///
/// Spinning answers in well under a microsecond, parking takes about a hundred; but a thread that
/// spins keeps a core from others. So a waiter spins only while the threads at work are no more
/// than the cores, and never longer than kSpinTime.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tandem::core {

using Clock = std::chrono::steady_clock;

inline constexpr std::chrono::microseconds kSpinTime{200};

/// Cores this process may run on.
int available_cores();

/// Counts its holder's threads as being at work.
class AtWork {
 public:
  explicit AtWork(int threads);
  ~AtWork();
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;

  static bool cores_suffice();

 private:
  int threads_;
};

class Signal {
 public:
  uint32_t value() const { return word_.load(std::memory_order_acquire); }

  /// True while somebody who waits has parked, and so takes long to answer.
  bool has_parked() const { return parked_.load(std::memory_order_relaxed) > 0; }

  /// Publishes everything written before, and wakes the waiters.
  void advance();

  /// Returns true once value() differs from `seen`, false when `deadline` has passed.
  bool wait_past(uint32_t seen, Clock::time_point deadline) const;

  /// The same with a time from now. An answer that comes at once is seen without a look at the
  /// clock.
  bool wait_past(uint32_t seen, std::chrono::nanoseconds patience) const;

 private:
  bool park(uint32_t seen, Clock::time_point deadline) const;

  alignas(64) std::atomic<uint32_t> word_{0};
  mutable std::atomic<uint32_t> parked_{0};
};

}  // namespace tandem::core
