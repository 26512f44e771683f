#include "tandem/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "device/cuda/cuda_devices.h"
#include "device/gpu/gpu_memory.h"
#include "device/inventory.h"
#include "device/settings.h"
#include "tandem/error.h"

namespace tandem::config {
namespace {

using devices::Inventory;
using devices::settings;

std::atomic<bool> tensor_float_32{false};
std::atomic<int64_t> wait_deadline_ns{120'000'000'000};

void set_configurations(const char* function, const std::string& name,
                        const std::vector<LogicalDeviceConfiguration>& configurations) {
  const bool is_cpu = name.starts_with("/physical_device:CPU:");
  if (configurations.empty()) {
    throw InvalidArgument(fmt::format("{}: no {} given; at least one is needed", function,
                                      is_cpu ? "CPU" : "logical device"));
  }
  for (const auto& configuration : configurations) {
    if (configuration.threads < 0) {
      throw InvalidArgument(
          fmt::format("{}: {} threads; give a positive number, or 0 for an even share", function,
                      configuration.threads));
    }
    if (configuration.threads > 0 && !is_cpu) {
      throw InvalidArgument(fmt::format("{}: {} threads for {}; only a CPU has threads", function,
                                        configuration.threads, name));
    }
  }
  Inventory::instance().set_configurations(name, configurations);
}

devices::DevicePtr find_named(const char* function, std::string_view name) {
  const DeviceSpec spec = DeviceSpec::parse(name);
  if (auto found = Inventory::instance().find(spec, false)) return found;
  throw NotFound(fmt::format("{}: device '{}' does not exist; the devices are {}", function,
                             spec.str(), devices::device_names()));
}

std::string link_text(const devices::gpu::Driver& from, const devices::gpu::Driver& to) {
  if (&from == &to) return "same device";
  switch (from.link_to(to)) {
    case devices::gpu::Link::nvlink:
      return "NVLink";
    case devices::gpu::Link::pcie:
      return "PCIe";
    case devices::gpu::Link::driver:
      return "driver";
    case devices::gpu::Link::host:
      break;
  }
  return "host";
}

}  // namespace

std::vector<PhysicalDevice> list_physical_devices(std::string_view type) {
  return Inventory::instance().physical(type, false);
}

std::vector<LogicalDevice> list_logical_devices(std::string_view type) {
  return Inventory::instance().logical(type);
}

std::vector<UnusableDevice> list_unusable_devices() { return Inventory::instance().unusable(); }

std::vector<DeviceLink> list_device_links() {
  std::vector<std::pair<std::string, const devices::gpu::Driver*>> gpus;
  for (const devices::DevicePtr& device : Inventory::instance().devices(false)) {
    const auto* const memory = dynamic_cast<devices::gpu::GpuMemory*>(&device->space());
    if (memory != nullptr) gpus.emplace_back(device->name(), &memory->driver());
  }
  std::vector<DeviceLink> links;
  for (const auto& [from, from_driver] : gpus) {
    for (const auto& [to, to_driver] : gpus) {
      if (from != to) links.push_back({from, to, link_text(*from_driver, *to_driver)});
    }
  }
  return links;
}

std::vector<BackendLibrary> list_libraries() {
  const auto gpus = list_physical_devices("GPU");
  if (std::ranges::find(gpus, "cuda", &PhysicalDevice::backend) == gpus.end()) return {};
  return devices::cuda::list_libraries();
}

void set_opencl_cpus(bool enabled) { Inventory::instance().set_opencl_cpus(enabled); }

void set_visible_devices(const std::vector<PhysicalDevice>& devices, std::string_view type) {
  Inventory::instance().set_visible(devices, type);
}

std::vector<PhysicalDevice> get_visible_devices(std::string_view type) {
  return Inventory::instance().physical(type, true);
}

void set_logical_device_configuration(
    const PhysicalDevice& device, const std::vector<LogicalDeviceConfiguration>& configurations) {
  set_configurations("set_logical_device_configuration", device.name, configurations);
}

std::vector<LogicalDeviceConfiguration> get_logical_device_configuration(
    const PhysicalDevice& device) {
  return Inventory::instance().configurations(device.name);
}

void set_logical_cpus(const std::vector<LogicalCpu>& cpus) {
  set_configurations("set_logical_cpus", "/physical_device:CPU:0", cpus);
}

void set_memory_growth(const PhysicalDevice& device, bool growth) {
  Inventory::instance().set_growth(device.name, growth);
}

bool get_memory_growth(const PhysicalDevice& device) {
  return Inventory::instance().growth(device.name);
}

MemoryInfo get_memory_info(std::string_view device) {
  const auto info = find_named("get_memory_info", device)->allocator().info();
  return {info.current, info.peak, info.reserved, info.limit};
}

void reset_memory_stats(std::string_view device) {
  find_named("reset_memory_stats", device)->allocator().reset_peak();
}

void set_soft_device_placement(bool enabled) { settings.soft_placement = enabled; }
bool get_soft_device_placement() { return settings.soft_placement; }
void set_log_device_placement(bool enabled) { settings.log_placement = enabled; }
bool get_log_device_placement() { return settings.log_placement; }
void set_device_policy(DevicePolicy policy) { settings.policy = policy; }
DevicePolicy get_device_policy() { return settings.policy; }
void set_captured_steps(CapturedSteps when) { settings.captured_steps = when; }
CapturedSteps get_captured_steps() { return settings.captured_steps; }
void enable_op_determinism() { settings.deterministic = true; }
bool is_op_determinism_enabled() { return settings.deterministic; }

void enable_tensor_float_32_execution(bool enabled) { tensor_float_32 = enabled; }
bool tensor_float_32_execution_enabled() { return tensor_float_32; }

void set_wait_deadline(std::chrono::nanoseconds deadline) {
  if (deadline.count() <= 0)
    throw InvalidArgument("set_wait_deadline: the deadline must be positive");
  wait_deadline_ns = deadline.count();
}

std::chrono::nanoseconds wait_deadline() {
  return std::chrono::nanoseconds(wait_deadline_ns.load());
}

}  // namespace tandem::config
