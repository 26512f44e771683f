/// How many threads play a team's members: all of them, or fewer while that brings more.
///
/// More threads bring less than fewer where they wait for one that is not running: another process
/// has its core. So now and then a *window* of jobs is measured. Its rate is the threads' time at
/// work per elapsed time: two threads that never wait make two, and one that nobody disturbs makes
/// one. When fewer threads could do as well as the present ones, the next window tries them; while
/// there are fewer than there could be, a window tries more from time to time, the less often the
/// more often it was in vain. A window compares with the one just before it, so jobs that are
/// serial by nature, or too small to share, find their number of threads too.
///
/// Nothing in here looks at a clock.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

namespace tandem::core {

class Dealing {
 public:
  using Duration = std::chrono::nanoseconds;
  using Time = std::chrono::steady_clock::time_point;

  /// The numbers of threads to choose from, falling.
  explicit Dealing(std::vector<int> threads) : threads_(std::move(threads)) {}

  /// Threads to choose from: all, half of them, .. one.
  static std::vector<int> halvings(int threads);

  struct Choice {
    size_t level = 0;  ///< Which of the numbers of threads is chosen.
    bool measure = false;
  };
  /// The choice for a job that begins now.
  Choice next(Time now) const;

  /// Takes note, after each job that was to be measured, how long it took, and how much of that
  /// its threads were at work, all together.
  void add(Duration elapsed, Duration work, Time now);

  /// A window is as long as several turns of a system's scheduler, and longer, but not without end,
  /// where little gets done: then there are many whose turns they are.
  static constexpr Duration kWindow = std::chrono::milliseconds(20);
  static constexpr Duration kLongestWindow = std::chrono::milliseconds(100);
  /// The time between two windows of all threads. To try fewer of them in vain costs little.
  static constexpr Duration kRest = std::chrono::milliseconds(300);
  /// The time before more threads are tried, at first and at most.
  static constexpr Duration kLeastPatience = std::chrono::milliseconds(100);
  static constexpr Duration kMostPatience = std::chrono::milliseconds(3200);

 private:
  bool is_window_over() const;
  void judge(size_t trial, double rate, Time now);
  void plan_trial(Time now);
  void rest(Time now);

  const std::vector<int> threads_;
  size_t level_ = 0;
  std::optional<size_t> trial_;
  bool fewer_failed_ = false;      // Fewer threads did worse in the last trial.
  double rate_ = 0;                // The rate of the level, in its last window.
  Duration elapsed_{0}, work_{0};  // The time of the present window so far, and the work in it.
  Duration window_{0};             // The length of the last window.
  Duration patience_ = kLeastPatience;
  Time next_window_{}, next_trial_{}, changed_{};
};

}  // namespace tandem::core
