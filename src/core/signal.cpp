#include "core/signal.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>

namespace tandem::core {
namespace {

std::atomic<int> threads_at_work{0};

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

long futex(const std::atomic<uint32_t>& word, int operation, uint32_t value,
           const timespec* timeout) {
  return syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

}  // namespace

int available_cores() {
  static const int cores = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    // Fails on machines with more cores than the set has room for.
    const int cores = sched_getaffinity(0, sizeof(set), &set) == 0
                          ? CPU_COUNT(&set)
                          : static_cast<int>(std::thread::hardware_concurrency());
    return std::max(1, cores);
  }();
  return cores;
}

namespace {

/// Whoever starts more processes than there are cores says TANDEM_SPIN=0: cores that suffice for
/// this process are others' too.
bool may_spin() {
  static const bool allowed = [] {
    const char* text = std::getenv("TANDEM_SPIN");
    return text == nullptr || std::strcmp(text, "0") != 0;
  }();
  return allowed;
}

}  // namespace

AtWork::AtWork(int threads) : threads_(threads) { threads_at_work += threads; }
AtWork::~AtWork() { threads_at_work -= threads_; }
bool AtWork::cores_suffice() {
  return threads_at_work.load(std::memory_order_relaxed) <= available_cores() && may_spin();
}

void Signal::advance() {
  // Sequentially consistent on both sides: either the waiter sees the new value, or we see it
  // parked.
  word_.fetch_add(1);
  if (parked_.load() > 0) futex(word_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr);
}

bool Signal::wait_past(uint32_t seen, Clock::time_point deadline) const {
  if (AtWork::cores_suffice()) {
    const auto spin_end = std::min(deadline, Clock::now() + kSpinTime);
    do {
      for (int i = 0; i < 64; ++i) {
        if (word_.load(std::memory_order_acquire) != seen) return true;
        relax();
      }
    } while (Clock::now() < spin_end);
  }
  return park(seen, deadline);
}

bool Signal::wait_past(uint32_t seen, std::chrono::nanoseconds patience) const {
  constexpr int kGlances = 100;  // A few microseconds.
  for (int i = 0; i < kGlances && AtWork::cores_suffice(); ++i) {
    if (word_.load(std::memory_order_acquire) != seen) return true;
    relax();
  }
  return wait_past(seen, Clock::now() + patience);
}

bool Signal::park(uint32_t seen, Clock::time_point deadline) const {
  parked_.fetch_add(1);
  bool changed = word_.load() != seen;
  while (!changed) {
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - Clock::now());
    if (left.count() <= 0) break;
    const timespec timeout{static_cast<time_t>(left.count() / 1'000'000'000),
                           static_cast<long>(left.count() % 1'000'000'000)};
    futex(word_, FUTEX_WAIT_PRIVATE, seen, &timeout);
    changed = word_.load() != seen;
  }
  parked_.fetch_sub(1);
  return changed;
}

}  // namespace tandem::core
