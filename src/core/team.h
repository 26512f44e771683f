/// A team of threads that runs one job at a time, all of its threads at once; the caller is its
/// first.
///
/// A job is written for *members*. Members form *squads*, the threads of one device each, so that a
/// team of two squads is two replicas. Members are dealt to real threads, the *hosts*: to as many
/// as there are cores, and to fewer while the hosts' waits for each other eat more than they bring
/// (core/dealing.h), down to the caller's alone. What a job computes does not depend on it.
///
/// A host goes through the squads of its lots in order. What stands between two barriers of a squad
/// it does for all members of the lot, and what stands between two team barriers for one lot before
/// it goes on to the next.
///
/// Each wait has a deadline. A thread that throws, or does not arrive, ends the job for all, and
/// run() throws the first error with the name of the squad. A thread that is stuck for good takes
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

struct Squad {
  int threads = 1;
  std::string name;  ///< "replica 1 on /device:CPU:1", for errors.
};

/// The members of one squad that one host plays: `rank`, `rank + stride`, ..
struct Lot {
  int squad = 0;
  int size = 1;    ///< Members of the squad.
  int rank = 0;    ///< The number of the first member within the squad,
  int global = 0;  ///< and within the team.
  int stride = 1;
  int count = 1;
};

class TeamState;

/// One thread of a team, during a job.
class Host {
 public:
  Host(TeamState& state, int index) : state_(state), index_(index) {}

  int index() const { return index_; }
  int hosts() const;                     ///< The number of hosts that play this job.
  const std::vector<Lot>& lots() const;  ///< What this one plays of it, by squad.

  /// Says whose part this thread plays now, and what it does, for errors. `activity` outlives the
  /// job.
  void playing(const Lot& lot) { squad_.store(lot.squad, std::memory_order_relaxed); }
  /// Releases, so that who gives this thread up sees all it did before as done.
  void doing(const char* activity) { activity_.store(activity, std::memory_order_release); }

  void squad_barrier(const Lot& lot);
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
  std::atomic<int> squad_{0};
  std::atomic<const char*> activity_{nullptr};
  std::atomic<bool> waiting_{false};
  std::atomic<bool> finished_{true};
};

/// What a team runs. It is kept alive by the threads that are still in it, also by a stuck one
/// after run() has thrown, so it owns what play() touches.
class Job {
 public:
  virtual ~Job() = default;
  virtual void play(Host& host) = 0;

  /// A job that may wait for something else than its hosts is played by all of them.
  virtual bool may_wait() const { return false; }
};

class Team {
 public:
  static constexpr int kAllCores = std::numeric_limits<int>::max();

  /// A team of at most so many hosts, and no more than there are cores.
  explicit Team(std::vector<Squad> squads, int most_hosts = kAllCores);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  /// Runs `job` on its hosts and returns when all have ended. Not reentrant: one caller at a time.
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
