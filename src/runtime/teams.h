/// Lends the teams of threads that run work on CPU devices. There is one team for each list of
/// devices that run together. Jobs that write variables have their slot for themselves; others run
/// side by side: the first takes the team, the next ones, and those that are too small to share,
/// stay on their callers' threads.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/shared_baton.h"
#include "core/team.h"
#include "device/logical_device.h"

namespace tandem::runtime {

/// What a slot must know of a job.
struct JobTraits {
  bool writes_variables = false;
  bool is_small = false;  ///< The caller's thread alone is faster.
};

class TeamSlot : public std::enable_shared_from_this<TeamSlot> {
 public:
  explicit TeamSlot(std::vector<core::Squad> squads) : squads_(std::move(squads)) {}

  /// Runs `job`; makes a new team where the last one broke. Throws DeadlineExceeded when jobs that
  /// this one cannot run beside do not end within the deadline, FailedPrecondition from within a
  /// job, else as Team::run.
  void run(const std::shared_ptr<core::Job>& job, const JobTraits& traits);

  /// Runs `job`, which uses no variables, if the team is free and its threads are awake; else
  /// returns false at once.
  bool run_if_awake(const std::shared_ptr<core::Job>& job);

 private:
  void run_beside_others(const std::shared_ptr<core::Job>& job, bool is_small);
  void run_on_team(const std::shared_ptr<core::Job>& job);
  void run_alone(const std::shared_ptr<core::Job>& job);
  [[noreturn]] void throw_held() const;

  const std::vector<core::Squad> squads_;
  core::SharedBaton variables_;  // Held by each job: to write them, or to read.
  std::mutex team_mutex_;        // Never waited for.
  std::unique_ptr<core::Team> team_;
  std::mutex singles_mutex_;
  std::vector<std::unique_ptr<core::Team>> singles_;  // Of no thread but the caller's; not in use.
};

/// The slot of these devices, in this order; one device's is its own team. `single_threaded`: with
/// one thread for each entry of the list. `names` are what errors call the entries: by their place
/// in the list unless given.
std::shared_ptr<TeamSlot> team_slot(const std::vector<devices::DevicePtr>& devices,
                                    bool single_threaded = false,
                                    const std::vector<std::string>& names = {});

/// The slot that the calling thread ran a job on last, or null. What this thread prepares between
/// two jobs, the team's other threads can share while they are awake.
std::shared_ptr<TeamSlot> last_team();

}  // namespace tandem::runtime
