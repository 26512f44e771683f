#include "device/logical_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "device/copies.h"
#include "device/inventory.h"
#include "device/placement_log.h"
#include "device/settings.h"
#include "device/task.h"
#include "tandem/error.h"

namespace tandem::devices {
namespace {

uint64_t next_id() {
  static std::atomic<uint64_t> counter{1};
  return counter++;
}

}  // namespace

Device::Device(Options options)
    : spec_(options.spec),
      name_(options.spec.str()),
      backend_(std::move(options.backend)),
      kernels_(options.kernels.empty() ? backend_ : options.kernels),
      missing_kernels_(std::move(options.missing_kernels)),
      threads_(options.threads),
      own_space_(std::move(options.own_space)),
      space_(own_space_ ? *own_space_ : host_memory()),
      allocator_(name_, space_),
      queue_(std::move(options.queue)),
      input_queue_(std::move(options.input_queue)),
      exchange_queue_(std::move(options.exchange_queue)),
      id_(next_id()) {
  allocator_.set_limit(options.memory_limit, options.reserve_limit);
}

bool Device::lacks_kernel(const std::string& op, DType dtype) const {
  if (missing_kernels_.empty()) return false;
  return missing_kernels_.contains(op) ||
         missing_kernels_.contains(fmt::format("{} {}", op, name_of(dtype)));
}

void Device::finish(std::chrono::nanoseconds deadline) const {
  for (Queue* queue : {input_queue_.get(), exchange_queue_.get(), queue_.get()}) {
    if (queue != nullptr) queue->record().wait(deadline);
  }
}

std::vector<DevicePtr> all_devices() { return Inventory::instance().devices(false); }

DevicePtr find_device(const DeviceSpec& spec) {
  if (DevicePtr found = Inventory::instance().find(spec, true)) return found;
  if (is_of_another_task(spec)) {
    throw NotFound(
        fmt::format("device '{}' is another task's, and this process is {}; each task's process "
                    "uses its own devices, which are {}",
                    spec.str(), own_task(), device_names()));
  }
  throw NotFound(
      fmt::format("device '{}' does not exist; the devices are {}", spec.str(), device_names()));
}

const std::vector<DevicePtr>& placement_order() {
  thread_local std::vector<DevicePtr> cached;
  thread_local uint64_t cached_generation = 0;
  const uint64_t generation = Inventory::instance().generation();
  if (cached_generation != generation) {
    cached = Inventory::instance().devices(true);
    cached_generation = generation;
  }
  return cached;
}

const DevicePtr& host_device() {
  const auto& devices = placement_order();
  return *std::ranges::find_if(
      devices, [](const DevicePtr& d) { return d->spec().index == 0 && d->spec().type == "CPU"; });
}

std::string device_names() {
  std::string names;
  for (const auto& device : Inventory::instance().logical({})) {
    names += (names.empty() ? "" : ", ") + device.name;
  }
  return names;
}

void reset_devices() {
  Inventory::instance().reset();
  settings.soft_placement = false;
  settings.log_placement = false;
  settings.deterministic = false;
  settings.policy = config::DevicePolicy::silent;
  settings.captured_steps = config::CapturedSteps::automatic;
  clear_placement_report();
  forget_copies();
}

}  // namespace tandem::devices
