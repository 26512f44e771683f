/// `tandem devices`: what there is to run on.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "tandem/config.h"

namespace tandem::tools {
namespace {

struct DeviceListOptions {
  int logical_cpus = 0;
  bool opencl_cpu = false;
  int test_gpus = 0;
  bool links = false;
  bool libraries = false;
};

std::string bytes_text(size_t bytes) {
  if (bytes == 0) return "-";
  constexpr double kMiB = 1 << 20;
  char text[32];
  std::snprintf(text, sizeof text, "%.0f MiB", static_cast<double>(bytes) / kMiB);
  return text;
}

config::PhysicalDevice physical_of(const config::LogicalDevice& device) {
  const auto physical = config::list_physical_devices(device.type);
  const auto found = std::ranges::find(physical, device.physical, &config::PhysicalDevice::name);
  return found == physical.end() ? config::PhysicalDevice{} : *found;
}

/// "NVIDIA GeForce RTX 4090 by NVIDIA Corporation, 128 units, driver 550.54"
std::string hardware_text(const config::PhysicalDevice& device) {
  if (device.hardware.empty()) return "-";
  return device.hardware + " by " + device.vendor + ", " + std::to_string(device.units) +
         " units, driver " + device.driver;
}

/// Its limit, else all that the physical device has, which its other parts may take as well.
std::string memory_of(const config::LogicalDevice& device) {
  if (device.memory_limit != 0) return bytes_text(device.memory_limit);
  const auto is_part = [&](const auto& logical) { return logical.physical == device.physical; };
  const auto parts = std::ranges::count_if(config::list_logical_devices(device.type), is_part);
  return bytes_text(physical_of(device).memory) + (parts > 1 ? ", shared" : "");
}

void list_links() {
  const auto links = config::list_device_links();
  if (links.empty()) std::printf("there are no links: they are between two GPUs\n");
  for (const auto& [from, to, kind] : links) {
    std::printf("%s -> %s  %s\n", from.c_str(), to.c_str(), kind.c_str());
  }
}

void list_libraries() {
  for (const auto& library : config::list_libraries()) {
    std::printf(
        "%s: %s\n", library.name.c_str(),
        library.missing.empty() ? library.found.c_str() : ("missing" + library.missing).c_str());
  }
}

void list(const DeviceListOptions& options) {
  if (options.logical_cpus > 0) {
    config::set_logical_cpus(
        std::vector<config::LogicalCpu>(static_cast<size_t>(options.logical_cpus)));
  }
  if (options.opencl_cpu) config::set_opencl_cpus(true);
  for (int i = 0; i < options.test_gpus; ++i) config::add_test_device();
  constexpr const char* kRow = "%-16s  %-8s  %7s  %-18s  %s\n";
  std::printf(kRow, "name", "backend", "threads", "memory", "hardware");
  for (const auto& device : config::list_logical_devices()) {
    const config::PhysicalDevice physical = physical_of(device);
    std::printf(kRow, device.name.c_str(), device.backend.c_str(),
                device.threads > 0 ? std::to_string(device.threads).c_str() : "-",
                memory_of(device).c_str(), hardware_text(physical).c_str());
  }
  for (const auto& device : config::list_unusable_devices()) {
    std::printf("not used: %s (%s): %s\n", device.hardware.c_str(), device.backend.c_str(),
                device.reason.c_str());
  }
  if (options.links) list_links();
  if (options.libraries) list_libraries();
}

}  // namespace

void add_devices(CLI::App& program) {
  CLI::App* command = program.add_subcommand("devices", "Lists the devices that ops can run on");
  const auto options = std::make_shared<DeviceListOptions>();
  command->add_option("--logical-cpus", options->logical_cpus, "Splits the CPU into so many")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--opencl-cpu", options->opencl_cpu,
                    "Counts CPUs among the devices of OpenCL (PoCL) as GPUs");
  command->add_option("--test-gpus", options->test_gpus, "Adds so many test devices")
      ->check(CLI::Range(0, 64));
  command->add_flag("--links", options->links, "Shows how bytes get from each GPU to each other");
  command->add_flag("--libraries", options->libraries,
                    "Shows which libraries of GPUs were found; loads them");
  command->callback([options] { list(*options); });
}

}  // namespace tandem::tools
