/// The teams of threads that run work on CPU devices, one for each list of devices that run
/// together, shared by the threads that call. A job that writes variables has its team for itself;
/// others run side by side: the first takes the team's threads, the next ones, and those that are
/// too small to share, stay on their callers' threads.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/shared_timed_mutex.h"
#include "core/team.h"
#include "device/logical_device.h"

namespace tandem::runtime {

/// What a shared team must know of a job.
struct JobTraits {
  bool writes_variables = false;
  bool is_small = false;  ///< The caller's thread alone is faster.
};

class SharedTeam : public std::enable_shared_from_this<SharedTeam> {
 public:
  explicit SharedTeam(std::vector<core::Subteam> subteams) : subteams_(std::move(subteams)) {}

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

  const std::vector<core::Subteam> subteams_;
  core::SharedTimedMutex variables_;  // Held by each job: to write them, or to read.
  std::mutex team_mutex_;             // Never waited for.
  std::unique_ptr<core::Team> team_;
  std::mutex singles_mutex_;
  std::vector<std::unique_ptr<core::Team>>
      singles_;  // Teams of the caller's thread alone that are not in use.
};

/// The team of these devices, in this order. `single_threaded`: with one thread for each entry of
/// the list. `names` are what errors call the entries: by their place in the list unless given.
/// Teams of different numbers have threads of their own, and do not wait for each other.
std::shared_ptr<SharedTeam> shared_team(const std::vector<devices::DevicePtr>& devices,
                                        bool single_threaded = false,
                                        const std::vector<std::string>& names = {}, int number = 0);

/// The team that the calling thread ran a job on last, or null. What this thread prepares between
/// two jobs, the team's other threads can share while they are awake.
std::shared_ptr<SharedTeam> last_team();

}  // namespace tandem::runtime
