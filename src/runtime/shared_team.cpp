#include "runtime/shared_team.h"

#include <fmt/format.h>

#include <map>
#include <shared_mutex>
#include <tuple>

#include "core/background.h"
#include "tandem/config.h"
#include "tandem/error.h"

namespace tandem::runtime {
namespace {

thread_local std::weak_ptr<SharedTeam> last;

std::vector<core::Subteam> subteams_of(const std::vector<devices::DevicePtr>& devices,
                                       bool single_threaded,
                                       const std::vector<std::string>& names) {
  std::vector<core::Subteam> subteams;
  for (size_t i = 0; i < devices.size(); ++i) {
    const std::string& device = devices[i]->name();
    const int threads = single_threaded ? 1 : devices[i]->threads();
    if (!names.empty()) {
      subteams.push_back({threads, names[i]});
    } else {
      subteams.push_back(
          {threads, devices.size() == 1 ? device : fmt::format("replica {} on {}", i, device)});
    }
  }
  return subteams;
}

}  // namespace

void SharedTeam::run(const std::shared_ptr<core::Job>& job, const JobTraits& traits) {
  if (core::Team::is_playing()) {
    throw FailedPrecondition(
        "function: called from within a step that is running; call it before or after the step");
  }
  last = weak_from_this();
  if (traits.writes_variables) {
    std::unique_lock lock(variables_, std::try_to_lock);
    if (!lock && !lock.try_lock_for(config::wait_deadline())) throw_held();
    traits.is_small ? run_alone(job) : run_on_team(job);
  } else {
    std::shared_lock lock(variables_, std::try_to_lock);
    if (!lock && !lock.try_lock_for(config::wait_deadline())) throw_held();
    run_beside_others(job, traits.is_small);
  }
}

void SharedTeam::run_beside_others(const std::shared_ptr<core::Job>& job, bool is_small) {
  if (!is_small && !core::in_background()) {
    const std::unique_lock team(team_mutex_, std::try_to_lock);
    if (team) return run_on_team(job);
  }
  run_alone(job);
}

/// A team that broke is left to its stuck threads.
void SharedTeam::run_on_team(const std::shared_ptr<core::Job>& job) {
  if (!team_) team_ = std::make_unique<core::Team>(subteams_);
  try {
    team_->run(job, config::wait_deadline());
  } catch (...) {
    if (team_->broken()) team_.reset();
    throw;
  }
}

void SharedTeam::run_alone(const std::shared_ptr<core::Job>& job) {
  const auto give_back = [this](core::Team* team) {
    const std::lock_guard lock(singles_mutex_);
    singles_.emplace_back(team);
  };
  std::unique_ptr<core::Team, decltype(give_back)> single(nullptr, give_back);
  {
    const std::lock_guard lock(singles_mutex_);
    if (!singles_.empty()) {
      single.reset(singles_.back().release());
      singles_.pop_back();
    }
  }
  if (!single) single.reset(new core::Team(subteams_, 1));
  single->run(job, config::wait_deadline());
}

bool SharedTeam::run_if_awake(const std::shared_ptr<core::Job>& job) {
  if (core::Team::is_playing()) return false;
  const std::shared_lock lock(variables_, std::try_to_lock);
  if (!lock) return false;
  const std::unique_lock team(team_mutex_, std::try_to_lock);
  if (!team || !team_ || !team_->awake()) return false;
  run_on_team(job);
  return true;
}

void SharedTeam::throw_held() const {
  throw DeadlineExceeded(fmt::format(
      "{}: another thread's work held the device for more than {:.3g} s", subteams_[0].name,
      std::chrono::duration<double>(config::wait_deadline()).count()));
}

std::shared_ptr<SharedTeam> last_team() { return last.lock(); }

std::shared_ptr<SharedTeam> shared_team(const std::vector<devices::DevicePtr>& devices,
                                        bool single_threaded, const std::vector<std::string>& names,
                                        int number) {
  using Key = std::tuple<bool, std::vector<uint64_t>, std::vector<std::string>, int>;
  static std::mutex mutex;
  static auto* teams = new std::map<Key, std::shared_ptr<SharedTeam>>;
  std::vector<uint64_t> ids;
  ids.reserve(devices.size());
  for (const auto& device : devices) ids.push_back(device->id());
  std::lock_guard lock(mutex);
  auto& team = (*teams)[{single_threaded, std::move(ids), names, number}];
  if (!team) team = std::make_shared<SharedTeam>(subteams_of(devices, single_threaded, names));
  return team;
}

}  // namespace tandem::runtime
