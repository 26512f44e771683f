#include "device/cpu/cpu_device.h"

#include <unistd.h>

#include "core/team.h"

namespace tandem::devices {
namespace {

size_t memory_of_machine() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<size_t>(pages) * static_cast<size_t>(page) : 0;
}

}  // namespace

Physical physical_cpu() {
  Physical cpu;
  cpu.description.type = "CPU";
  cpu.description.backend = "cpu";
  cpu.description.threads = core::available_cores();
  cpu.description.memory = memory_of_machine();
  cpu.open = [](const DeviceSpec&, const config::LogicalDeviceConfiguration& part) {
    Device::Options options;
    options.threads = part.threads;
    options.queue = std::make_unique<ImmediateQueue>();
    return options;
  };
  return cpu;
}

}  // namespace tandem::devices
