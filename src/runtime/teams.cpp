#include "runtime/teams.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <tuple>

#include "tandem/config.h"
#include "tandem/error.h"

namespace tandem::runtime {
namespace {

thread_local std::weak_ptr<TeamSlot> last;

std::vector<core::Squad> squads_of(const std::vector<devices::DevicePtr>& devices,
                                   bool single_threaded, const std::vector<std::string>& names) {
  std::vector<core::Squad> squads;
  for (size_t i = 0; i < devices.size(); ++i) {
    const std::string& device = devices[i]->name();
    const int threads = single_threaded ? 1 : devices[i]->threads();
    if (!names.empty()) {
      squads.push_back({threads, names[i]});
    } else {
      squads.push_back(
          {threads, devices.size() == 1 ? device : fmt::format("replica {} on {}", i, device)});
    }
  }
  return squads;
}

}  // namespace

void TeamSlot::run(const std::shared_ptr<core::Job>& job) {
  if (core::Team::is_playing()) {
    throw FailedPrecondition(
        "function: called from within a step that is running; call it before or after the step");
  }
  const auto deadline = config::wait_deadline();
  std::unique_lock lock(baton_, std::try_to_lock);
  if (!lock && !lock.try_lock_for(deadline)) {
    throw DeadlineExceeded(
        fmt::format("{}: another thread's work held the device for more than {:.3g} s",
                    squads_[0].name, std::chrono::duration<double>(deadline).count()));
  }
  if (!team_) team_ = std::make_unique<core::Team>(squads_);
  last = weak_from_this();
  run_on_team(job);
}

/// A team that broke is left to its stuck threads.
void TeamSlot::run_on_team(const std::shared_ptr<core::Job>& job) {
  try {
    team_->run(job, config::wait_deadline());
  } catch (...) {
    if (team_->broken()) team_.reset();
    throw;
  }
}

bool TeamSlot::run_if_awake(const std::shared_ptr<core::Job>& job) {
  if (core::Team::is_playing()) return false;
  const std::unique_lock lock(baton_, std::try_to_lock);
  if (!lock || !team_ || !team_->awake()) return false;
  run_on_team(job);
  return true;
}

std::shared_ptr<TeamSlot> last_team() { return last.lock(); }

std::shared_ptr<TeamSlot> team_slot(const std::vector<devices::DevicePtr>& devices,
                                    bool single_threaded, const std::vector<std::string>& names) {
  using Key = std::tuple<bool, std::vector<uint64_t>, std::vector<std::string>>;
  static std::mutex mutex;
  static auto* slots = new std::map<Key, std::shared_ptr<TeamSlot>>;
  std::vector<uint64_t> ids;
  ids.reserve(devices.size());
  for (const auto& device : devices) ids.push_back(device->id());
  std::lock_guard lock(mutex);
  auto& slot = (*slots)[{single_threaded, std::move(ids), names}];
  if (!slot) slot = std::make_shared<TeamSlot>(squads_of(devices, single_threaded, names));
  return slot;
}

}  // namespace tandem::runtime
