/// Lends the teams of threads that run work on CPU devices. There is one team for each list of
/// devices that run together; who wants one that is lent waits for it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/baton.h"
#include "core/team.h"
#include "device/device.h"

namespace tandem::runtime {

class TeamSlot : public std::enable_shared_from_this<TeamSlot> {
 public:
  explicit TeamSlot(std::vector<core::Squad> squads) : squads_(std::move(squads)) {}

  /// Runs `job` on the slot's team; makes a new team where the last one broke. Throws
  /// DeadlineExceeded when the team is not free within the deadline, FailedPrecondition from within
  /// a job, else as Team::run.
  void run(const std::shared_ptr<core::Job>& job);

  /// Runs `job` as run() does if the team is free and its threads are awake; else returns false at
  /// once.
  bool run_if_awake(const std::shared_ptr<core::Job>& job);

 private:
  void run_on_team(const std::shared_ptr<core::Job>& job);

  std::vector<core::Squad> squads_;
  core::Baton baton_;
  std::unique_ptr<core::Team> team_;
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
