#include "runtime/teams.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "tandem/config.h"
#include "tandem/error.h"

namespace tandem::runtime {
namespace {

thread_local std::weak_ptr<TeamSlot> last;

}  // namespace

TeamSlot::TeamSlot(const std::vector<devices::DevicePtr>& devices, bool single_threaded) {
  for (size_t i = 0; i < devices.size(); ++i) {
    const std::string& device = devices[i]->name();
    squads_.push_back({single_threaded ? 1 : devices[i]->threads(),
                       devices.size() == 1 ? device : fmt::format("replica {} on {}", i, device)});
  }
}

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
  if (!team_ || team_->broken()) team_ = std::make_unique<core::Team>(squads_);
  last = weak_from_this();
  team_->run(job, deadline);
}

bool TeamSlot::run_if_awake(const std::shared_ptr<core::Job>& job) {
  if (core::Team::is_playing()) return false;
  const std::unique_lock lock(baton_, std::try_to_lock);
  if (!lock || !team_ || team_->broken() || !team_->awake()) return false;
  team_->run(job, config::wait_deadline());
  return true;
}

std::shared_ptr<TeamSlot> last_team() { return last.lock(); }

std::shared_ptr<TeamSlot> team_slot(const std::vector<devices::DevicePtr>& devices,
                                    bool single_threaded) {
  static std::mutex mutex;
  static auto* slots =
      new std::map<std::pair<bool, std::vector<uint64_t>>, std::shared_ptr<TeamSlot>>;
  std::vector<uint64_t> key;
  for (const auto& device : devices) key.push_back(device->id());
  std::lock_guard lock(mutex);
  auto& slot = (*slots)[{single_threaded, std::move(key)}];
  if (!slot) slot = std::make_shared<TeamSlot>(devices, single_threaded);
  return slot;
}

}  // namespace tandem::runtime
