/// A team of threads that runs one job at a time, all of its threads at once; the caller is its
/// first.
///
/// A job is written for *members*, as many as its devices have threads. The members of one device
/// form a *subteam*, so that a team of two subteams is two replicas. Members are dealt to the
/// team's threads: to as many as there are cores, and to fewer while the threads' waits for each
/// other eat more than they bring (core/dealing.h), down to the caller's alone. What a job computes
/// does not depend on it.
///
/// A thread goes through the subteams that it plays members of, in order. What stands between two
/// barriers of a subteam it does for all of these members, and what stands between two team
/// barriers for one subteam before it goes on to the next.
///
/// Each wait has a deadline. A thread that throws, or does not arrive, ends the job for all, and
/// run() throws the first error with the name of the subteam. A thread that is stuck for good takes
/// its team with it: the team is then broken(), and its owner makes another. A caller who plays
/// alone waits for nobody.
#pragma once

#include <atomic>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/signal.h"

namespace tandem::core {

/// The members of one device.
struct Subteam {
  int members = 1;
  std::string name;  ///< "replica 1 on /device:CPU:1", for errors.
};

/// The members of one subteam that one thread plays: `rank`, `rank + stride`, ..
struct Members {
  int subteam = 0;
  int size = 1;    ///< The number of members that the subteam has.
  int rank = 0;    ///< The number of the first member within the subteam,
  int global = 0;  ///< and within the team.
  int stride = 1;
  int count = 1;
};

class TeamState;

/// One thread of a team, during a job.
class TeamThread {
 public:
  TeamThread(TeamState& state, int index) : state_(state), index_(index) {}

  int index() const { return index_; }
  int playing_threads() const;                  ///< The number of threads that play this job.
  const std::vector<Members>& members() const;  ///< What this one plays of it, by subteam.

  /// Says whose part this thread plays now, and what it does, for errors. `activity` outlives the
  /// job.
  void playing(const Members& members) {
    subteam_.store(members.subteam, std::memory_order_relaxed);
  }
  /// Releases, so that who gives this thread up sees all it did before as done.
  void doing(const char* activity) { activity_.store(activity, std::memory_order_release); }

  void subteam_barrier(const Members& members);
  void team_barrier();

  /// Leaves the job if it has failed elsewhere. A thread that was given up calls it before it
  /// touches anything that others may be using again.
  void leave_if_failed() const;

 private:
  friend class TeamState;

  TeamState& state_;
  const int index_;
  std::chrono::nanoseconds work_{0};  // Time in the job, where it is measured: computing,
  std::chrono::nanoseconds spun_{0};  // and spinning in barriers.
  std::atomic<int> subteam_{0};
  std::atomic<const char*> activity_{nullptr};
  std::atomic<bool> waiting_{false};
  std::atomic<bool> finished_{true};
};

/// What a team runs. It is kept alive by the threads that are still in it, also by a stuck one
/// after run() has thrown, so it owns what play() touches.
class Job {
 public:
  virtual ~Job() = default;
  virtual void play(TeamThread& thread) = 0;

  /// A job that may wait for something else than its threads is played by all of them.
  virtual bool may_wait() const { return false; }
};

class Team {
 public:
  static constexpr int kAllCores = std::numeric_limits<int>::max();

  /// A team of at most so many threads, and no more than there are cores.
  explicit Team(std::vector<Subteam> subteams, int most_threads = kAllCores);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  /// Runs `job` on its threads and returns when all have ended. Not reentrant: one caller at a
  /// time.
  void run(const std::shared_ptr<Job>& job, std::chrono::nanoseconds deadline);

  bool broken() const;

  /// True where other threads than the caller's play, and all of them would begin at once: they
  /// have just been at work, and spin.
  bool awake() const;

  /// True on a thread that is playing a job: it must not wait for a team itself.
  static bool is_playing();

 private:
  void dismiss();
  [[noreturn]] void throw_failure();

  std::shared_ptr<TeamState> state_;
  std::vector<std::thread> threads_;
};

}  // namespace tandem::core
