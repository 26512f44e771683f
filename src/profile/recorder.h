/// What is recorded while a profile is taken: events on rows, a row for each thread and each device
/// that works on its own.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

namespace tandem::profile {

enum class Kind {
  step,  ///< A run of a compiled function, on the thread that called it,
  part,  ///< and on each thread that helped.
  compute,
  reduce,
  copy,
  wait,
};

struct Event {
  const char* name;  ///< The name, which outlives the profile.
  Kind kind;
  int64_t begin_ns;
  int64_t end_ns;
  double flops = 0;
  double bytes = 0;
  int replica = -1;  ///< The replica that the thread worked for; set by record().
};

extern std::atomic<bool> recording;

inline bool is_recording() { return recording.load(std::memory_order_relaxed); }

inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Adds an event to the row of this thread. Nothing happens where no profile is being taken.
void record(const Event& event);

/// Says which replica this thread works for from now on.
void set_replica(int replica);

/// Names this thread's row; the first name stays.
void name_row(const std::string& name);

/// Records the time from here to the end of its life, if a profile is being taken.
class Span {
 public:
  Span(const char* name, Kind kind, double flops = 0, double bytes = 0)
      : event_{name, kind, is_recording() ? now_ns() : 0, 0, flops, bytes} {}
  ~Span() {
    if (event_.begin_ns == 0) return;
    event_.end_ns = now_ns();
    record(event_);
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  Event event_;
};

}  // namespace tandem::profile
