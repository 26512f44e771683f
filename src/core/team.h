/// A team of threads that runs one job at a time, all of its threads at once; the caller is its
/// first.
///
/// A job is written for *members*. Members form *squads*, the threads of one device each, so that a
/// team of two squads is two replicas. Where members outnumber cores a thread (a Host) plays
/// several of them in turn, so that threads never outnumber cores. A host plays its members in
/// order, and finishes for one what stands between two team barriers before it goes on to the next.
///
/// Each wait has a deadline. A thread that throws, or does not arrive, ends the job for all, and
/// run() throws the first error with the name of the squad. A thread that is stuck for good takes
/// its team with it: the team is then broken(), and its owner makes another.
#pragma once

#include <atomic>
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

struct Member {
  int squad = 0;
  int rank = 0;    ///< Within the squad.
  int size = 1;    ///< Members of the squad.
  int global = 0;  ///< Within the team.
};

class TeamState;

/// One thread of a team, during a job.
class Host {
 public:
  Host(TeamState& state, int index, std::vector<Member> members);

  int index() const { return index_; }
  int hosts() const;  ///< Threads of the team.
  const std::vector<Member>& members() const { return members_; }

  /// Says whose part this thread plays now, and what it does, for errors. `activity` outlives the
  /// job.
  void playing(const Member& member) { squad_.store(member.squad, std::memory_order_relaxed); }
  /// Releases, so that who gives this thread up sees all it did before as done.
  void doing(const char* activity) { activity_.store(activity, std::memory_order_release); }

  void squad_barrier(const Member& member);
  void team_barrier();

  /// Leaves the job if it has failed elsewhere. A thread that was given up calls it before it
  /// touches anything that others may be using again.
  void leave_if_failed() const;

 private:
  friend class TeamState;

  TeamState& state_;
  const int index_;
  const std::vector<Member> members_;
  std::atomic<int> squad_;
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
};

class Team {
 public:
  explicit Team(std::vector<Squad> squads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  /// Runs `job` on every host and returns when all have ended. Not reentrant: one caller at a time.
  void run(const std::shared_ptr<Job>& job, std::chrono::nanoseconds deadline);

  bool broken() const;

  /// True where there are other threads than the caller's, and all of them would begin at once:
  /// they have just been at work, and spin.
  bool awake() const;

  /// True on a thread that is playing a job: it must not wait for a team itself.
  static bool is_playing();

 private:
  void dismiss();

  std::shared_ptr<TeamState> state_;
  std::vector<std::thread> threads_;
};

}  // namespace tandem::core
