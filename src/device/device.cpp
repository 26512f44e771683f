#include "device/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "tandem/config.h"
#include "tandem/error.h"

namespace tandem::devices {
namespace {

uint64_t next_id() {
  static std::atomic<uint64_t> counter{1};
  return counter++;
}

DevicePtr make_cpu(int index, int threads) {
  Device::Options options;
  options.spec.type = "CPU";
  options.spec.index = index;
  options.backend = "cpu";
  options.threads = threads;
  options.queue = std::make_unique<ImmediateQueue>();
  return std::make_shared<Device>(std::move(options));
}

/// The process's devices. Made on first sight, fixed on first use.
class Registry {
 public:
  static Registry& instance() {
    static Registry* registry = new Registry;
    return *registry;
  }

  std::vector<DevicePtr> list() {
    std::lock_guard lock(mutex_);
    return ordered();
  }

  DevicePtr find(const DeviceSpec& spec) {
    std::lock_guard lock(mutex_);
    const auto devices = ordered();
    in_use_ = true;
    const auto found =
        std::ranges::find_if(devices, [&](const DevicePtr& d) { return spec.matches(d->spec()); });
    if (found != devices.end()) return *found;
    throw NotFound(
        fmt::format("device '{}' does not exist; the devices are {}", spec.str(), names(devices)));
  }

  std::vector<DevicePtr> use_all() {
    std::lock_guard lock(mutex_);
    in_use_ = true;
    return ordered();
  }

  void set_cpus(const std::vector<config::LogicalCpu>& split) {
    std::lock_guard lock(mutex_);
    check_unused("the logical CPUs");
    cpus_.clear();
    const int count = static_cast<int>(split.size());
    const int share = std::max(1, core::available_cores() / count);
    for (int i = 0; i < count; ++i) {
      const int threads = split[static_cast<size_t>(i)].threads;
      cpus_.push_back(make_cpu(i, threads > 0 ? threads : share));
    }
  }

  void add(Device::Options options) {
    std::lock_guard lock(mutex_);
    check_unused("the devices");
    for (const DevicePtr& device : ordered()) {
      if (device->spec() == options.spec) {
        throw InvalidArgument(fmt::format("config: {} exists already", device->name()));
      }
    }
    others_.push_back(std::make_shared<Device>(std::move(options)));
  }

  void reset() {
    std::lock_guard lock(mutex_);
    cpus_.clear();
    others_.clear();
    in_use_ = false;
    ++generation_;
  }

  uint64_t generation() const { return generation_; }

 private:
  const std::vector<DevicePtr>& cpus() {
    if (cpus_.empty()) cpus_.push_back(make_cpu(0, core::available_cores()));
    return cpus_;
  }

  std::vector<DevicePtr> ordered() {
    std::vector<DevicePtr> all = others_;
    all.insert(all.end(), cpus().begin(), cpus().end());
    return all;
  }

  void check_unused(std::string_view what) const {
    if (!in_use_) return;
    throw FailedPrecondition(fmt::format(
        "config: {} cannot change after a device has been used; configure first", what));
  }

  static std::string names(const std::vector<DevicePtr>& devices) {
    std::string text;
    for (const DevicePtr& device : devices) text += (text.empty() ? "" : ", ") + device->name();
    return text;
  }

  std::mutex mutex_;
  std::vector<DevicePtr> cpus_;
  std::vector<DevicePtr> others_;
  bool in_use_ = false;
  std::atomic<uint64_t> generation_{1};
};

std::atomic<int64_t> wait_deadline_ns{120'000'000'000};

}  // namespace

Device::Device(Options options)
    : spec_(options.spec),
      name_(options.spec.str()),
      backend_(std::move(options.backend)),
      kernels_(options.kernels.empty() ? backend_ : std::move(options.kernels)),
      missing_kernels_(std::move(options.missing_kernels)),
      kernel_address_(options.kernel_address),
      threads_(options.threads),
      own_space_(std::move(options.own_space)),
      space_(own_space_ ? *own_space_ : host_memory()),
      allocator_(name_, space_),
      queue_(std::move(options.queue)),
      id_(next_id()) {}

std::vector<DevicePtr> all_devices() { return Registry::instance().list(); }
DevicePtr find_device(const DeviceSpec& spec) { return Registry::instance().find(spec); }
void add_device(Device::Options options) { Registry::instance().add(std::move(options)); }
void reset_devices() { Registry::instance().reset(); }

const std::vector<DevicePtr>& placement_order() {
  thread_local std::vector<DevicePtr> cached;
  thread_local uint64_t cached_generation = 0;
  const uint64_t generation = Registry::instance().generation();
  if (cached_generation != generation) {
    cached = Registry::instance().use_all();
    cached_generation = generation;
  }
  return cached;
}

const DevicePtr& host_device() {
  const auto& devices = placement_order();
  return *std::ranges::find_if(
      devices, [](const DevicePtr& d) { return d->spec().index == 0 && d->spec().type == "CPU"; });
}

}  // namespace tandem::devices

namespace tandem::config {

void set_logical_cpus(const std::vector<LogicalCpu>& cpus) {
  if (cpus.empty()) throw InvalidArgument("set_logical_cpus: no CPU given; at least one is needed");
  for (const LogicalCpu& cpu : cpus) {
    if (cpu.threads < 0) {
      throw InvalidArgument(fmt::format(
          "set_logical_cpus: {} threads; give a positive number, or 0 for an even share",
          cpu.threads));
    }
  }
  devices::Registry::instance().set_cpus(cpus);
}

std::vector<LogicalDevice> list_logical_devices(std::string_view type) {
  std::vector<LogicalDevice> result;
  for (const auto& device : devices::all_devices()) {
    if (!type.empty() && *device->spec().type != type) continue;
    result.push_back({device->name(), *device->spec().type, device->backend(), device->threads()});
  }
  return result;
}

void set_wait_deadline(std::chrono::nanoseconds deadline) {
  if (deadline.count() <= 0)
    throw InvalidArgument("set_wait_deadline: the deadline must be positive");
  devices::wait_deadline_ns = deadline.count();
}

std::chrono::nanoseconds wait_deadline() {
  return std::chrono::nanoseconds(devices::wait_deadline_ns.load());
}

}  // namespace tandem::config
