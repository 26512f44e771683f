#include "device/inventory.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "device/cpu/cpu_device.h"
#include "device/cuda/cuda_devices.h"
#include "device/opencl/opencl_devices.h"
#include "tandem/error.h"

namespace tandem::devices {
namespace {

using config::LogicalDeviceConfiguration;
using config::PhysicalDevice;

/// Every backend that finds devices by itself. Those that are found by several are of the first.
constexpr Found (*kBackends[])(const Search&) = {cuda::find_devices, opencl::find_devices};

bool is_of(const PhysicalDevice& device, std::string_view type) {
  return type.empty() || device.type == type;
}

constexpr const char* kNoCluster = "localhost";  // The job of a process that is in none.

DeviceSpec named(DeviceSpec spec, const std::string& job, int task) {
  spec.job = job;
  spec.replica = 0;
  spec.task = task;
  return spec;
}

void check_limits(const PhysicalDevice& device, bool growth,
                  const std::vector<LogicalDeviceConfiguration>& configurations) {
  const auto unlimited = [](const auto& part) { return part.memory_limit == 0; };
  if (growth || std::ranges::none_of(configurations, unlimited)) return;
  throw InvalidArgument(fmt::format(
      "config: {} is to take all its memory at once and has no memory limit; give each of its "
      "logical devices one with set_logical_device_configuration, or leave memory growth on",
      device.name));
}

}  // namespace

Inventory& Inventory::instance() {
  static auto* inventory = new Inventory;
  return *inventory;
}

Inventory::Inventory() { reset(); }

void Inventory::reset() {
  std::lock_guard lock(mutex_);
  entries_.clear();
  unusable_.clear();
  forget_devices();
  search_ = {};
  discovered_ = false;
  in_use_ = false;
  {
    const std::lock_guard task_lock(task_mutex_);
    job_ = kNoCluster;
    task_ = 0;
  }
  ++generation_;
  Entry cpu{.device = physical_cpu()};
  cpu.device.description.name = "/physical_device:CPU:0";
  entries_.push_back(std::move(cpu));
}

/// The lock, once the backends have said what there is: when somebody asks for devices, and not
/// when the process starts.
std::unique_lock<std::mutex> Inventory::discovered() {
  std::unique_lock lock(mutex_);
  if (!discovered_) discover();
  return lock;
}

void Inventory::discover() {
  Search search = search_;
  for (const auto find : kBackends) {
    Found found = find(search);
    for (Physical& physical : found.usable) {
      search.found_vendors.insert(physical.description.vendor);
      add_entry(std::move(physical));
    }
    std::ranges::move(found.unusable, std::back_inserter(unusable_));
  }
  discovered_ = true;
}

void Inventory::add(Physical physical) {
  const auto lock = discovered();
  check_unused("the devices");
  add_entry(std::move(physical));
}

void Inventory::add_entry(Physical physical) {
  const auto index = std::ranges::count_if(entries_, [&](const Entry& entry) {
    return entry.device.description.type == physical.description.type;
  });
  physical.description.name =
      fmt::format("/physical_device:{}:{}", physical.description.type, index);
  entries_.push_back({.device = std::move(physical)});
  forget_devices();
}

std::vector<config::UnusableDevice> Inventory::unusable() {
  const auto lock = discovered();
  return unusable_;
}

void Inventory::set_opencl_cpus(bool enabled) {
  std::lock_guard lock(mutex_);
  check_unused("the devices of OpenCL");
  if (search_.opencl_cpus == enabled) return;
  search_.opencl_cpus = enabled;
  std::erase_if(entries_,
                [](const Entry& entry) { return entry.device.description.type != "CPU"; });
  unusable_.clear();
  forget_devices();
  discovered_ = false;
}

std::vector<PhysicalDevice> Inventory::physical(std::string_view type, bool only_visible) {
  const auto lock = discovered();
  std::vector<PhysicalDevice> result;
  for (const Entry& entry : entries_) {
    if (only_visible && !entry.visible) continue;
    if (is_of(entry.device.description, type)) result.push_back(entry.device.description);
  }
  return result;
}

std::vector<config::LogicalDevice> Inventory::logical(std::string_view type) {
  const auto lock = discovered();
  std::vector<config::LogicalDevice> result;
  for (const Logical& logical : logical_devices()) {
    const PhysicalDevice& device = logical.entry->device.description;
    if (!is_of(device, type)) continue;
    result.push_back({given_name(logical.spec).str(), device.type, device.backend,
                      logical.configuration.threads, logical.configuration.memory_limit,
                      device.name});
  }
  return result;
}

void Inventory::set_visible(const std::vector<PhysicalDevice>& devices, std::string_view type) {
  const auto lock = discovered();
  check_unused("the visible devices");
  for (const PhysicalDevice& device : devices) {
    if (is_of(entry(device.name).device.description, type)) continue;
    throw InvalidArgument(
        fmt::format("set_visible_devices: {} is not of type {}", device.name, type));
  }
  const auto shown = [&](const Entry& entry) {
    const PhysicalDevice& description = entry.device.description;
    if (!is_of(description, type)) return entry.visible;
    return std::ranges::find(devices, description.name, &PhysicalDevice::name) != devices.end();
  };
  if (!shown(entries_[0])) {
    throw InvalidArgument(
        fmt::format("set_visible_devices: {} cannot be hidden, the host's values live there",
                    entries_[0].device.description.name));
  }
  for (Entry& entry : entries_) entry.visible = shown(entry);
  forget_devices();
}

void Inventory::set_configurations(const std::string& name,
                                   std::vector<LogicalDeviceConfiguration> configurations) {
  const auto lock = discovered();
  Entry& cut = entry(name);
  check_unused(name.starts_with("/physical_device:CPU") ? "the logical CPUs"
                                                        : "the logical devices");
  check_limits(cut.device.description, cut.growth, configurations);
  cut.configurations = std::move(configurations);
  forget_devices();
}

std::vector<LogicalDeviceConfiguration> Inventory::configurations(const std::string& name) {
  const auto lock = discovered();
  return entry(name).configurations;
}

void Inventory::set_growth(const std::string& name, bool growth) {
  const auto lock = discovered();
  Entry& device = entry(name);
  check_unused("memory growth");
  check_limits(device.device.description, growth, device.configurations);
  device.growth = growth;
  forget_devices();
}

bool Inventory::growth(const std::string& name) {
  const auto lock = discovered();
  return entry(name).growth;
}

std::vector<DevicePtr> Inventory::devices(bool use) {
  const auto lock = discovered();
  in_use_ = in_use_ || use;
  return create_devices();
}

DevicePtr Inventory::find(const DeviceSpec& spec, bool use) {
  const auto lock = discovered();
  in_use_ = in_use_ || use;
  for (const DevicePtr& device : create_devices()) {
    if (spec.matches(full_name(device->spec()))) return device;
    if (spec.job == kNoCluster && spec.matches(named(device->spec(), kNoCluster, 0))) return device;
  }
  return nullptr;
}

void Inventory::set_task(const std::string& job, int task) {
  const std::lock_guard lock(task_mutex_);
  job_ = job;
  task_ = task;
}

DeviceSpec Inventory::full_name(const DeviceSpec& spec) const {
  const std::lock_guard lock(task_mutex_);
  return named(spec, job_, task_);
}

DeviceSpec Inventory::given_name(const DeviceSpec& spec) const {
  DeviceSpec full = full_name(spec);
  if (full.job == kNoCluster) return spec;
  full.replica.reset();
  return full;
}

bool Inventory::is_own(const DeviceSpec& spec) const {
  DeviceSpec place;
  place.job = spec.job;
  place.replica = spec.replica;
  place.task = spec.task;
  return place.matches(full_name({})) ||
         (place.job == kNoCluster && place.matches(named({}, kNoCluster, 0)));
}

Inventory::Entry& Inventory::entry(const std::string& name) {
  const auto found = std::ranges::find_if(
      entries_, [&](const Entry& entry) { return entry.device.description.name == name; });
  if (found != entries_.end()) return *found;
  std::string names;
  for (const Entry& entry : entries_) {
    names += (names.empty() ? "" : ", ") + entry.device.description.name;
  }
  throw NotFound(
      fmt::format("config: physical device '{}' does not exist; there are {}", name, names));
}

std::vector<Inventory::Logical> Inventory::logical_devices() const {
  std::vector<Logical> devices;
  std::map<std::string, int> count;  // By type.
  for (const Entry& entry : entries_) {
    if (!entry.visible) continue;
    const PhysicalDevice& device = entry.device.description;
    const int share = std::max(1, device.threads / static_cast<int>(entry.configurations.size()));
    for (LogicalDeviceConfiguration configuration : entry.configurations) {
      if (device.threads > 0 && configuration.threads == 0) configuration.threads = share;
      DeviceSpec spec;
      spec.type = device.type;
      spec.index = count[device.type]++;
      devices.push_back({std::move(spec), &entry, configuration});
    }
  }
  std::stable_partition(devices.begin(), devices.end(),
                        [](const Logical& logical) { return logical.spec.type != "CPU"; });
  return devices;
}

const std::vector<DevicePtr>& Inventory::create_devices() {
  if (!devices_.empty()) return devices_;
  for (const Logical& logical : logical_devices()) {
    Device::Options options = logical.entry->device.open(logical.spec, logical.configuration);
    options.spec = logical.spec;
    options.backend = logical.entry->device.description.backend;
    if (options.memory_limit == 0) options.memory_limit = logical.configuration.memory_limit;
    options.reserve_limit = !logical.entry->growth;
    devices_.push_back(std::make_shared<Device>(std::move(options)));
  }
  return devices_;
}

void Inventory::check_unused(std::string_view what) const {
  if (!in_use_) return;
  throw FailedPrecondition(
      fmt::format("config: {} cannot change after a device has been used; configure first", what));
}

}  // namespace tandem::devices
