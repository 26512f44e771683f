/// What a profile is made of: intervals on rows, a row for each thread and each
/// device that works on its own.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

namespace tandem::profile {

enum class Activity {
  step,        ///< A run of a compiled function, on the thread that called it,
  step_share,  ///< and on each thread that helped.
  compute,
  reduce,
  copy,
  wait,
};

/// What happened on a row from one point in time to another.
struct Interval {
  const char* name;  ///< The name, which outlives the profile.
  Activity kind;
  int64_t begin_ns;
  int64_t end_ns;
  double flops = 0;
  double bytes = 0;
  int replica = -1;  ///< The replica that the thread worked for; set by add().
};

extern std::atomic<bool> profiling;

inline bool is_profiling() { return profiling.load(std::memory_order_relaxed); }

inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Adds an interval to the row of this thread. Nothing happens where no profile is being taken.
void add(const Interval& interval);

/// Adds an interval, its replica included, to the row of a device that tells times of its own.
void record_on(const std::string& row_name, const Interval& interval);

/// Says which replica this thread works for from now on.
void set_replica(int replica);

/// Names this thread's row; the first name stays.
void name_row(const std::string& name);

/// Records the time from here to the end of its life, if a profile is being taken.
class Span {
 public:
  Span(const char* name, Activity kind, double flops = 0, double bytes = 0)
      : interval_{name, kind, is_profiling() ? now_ns() : 0, 0, flops, bytes} {}
  ~Span() {
    if (interval_.begin_ns == 0) return;
    interval_.end_ns = now_ns();
    add(interval_);
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  Interval interval_;
};

}  // namespace tandem::profile
