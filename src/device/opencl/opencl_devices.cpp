#include "device/opencl/opencl_devices.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "device/gpu/gpu_device.h"
#include "device/opencl/opencl_driver.h"
#include "tandem/error.h"

namespace tandem::devices::opencl {
namespace {

namespace fs = std::filesystem;

std::string_view environment() {
  const char* value = std::getenv("TANDEM_OPENCL");
  if (value == nullptr || *value == '\0') return "gpu";
  const std::string_view asked = value;
  if (asked == "gpu" || asked == "cpu" || asked == "off") return asked;
  throw InvalidArgument(fmt::format(
      "TANDEM_OPENCL is '{}'; it may be gpu, cpu (devices of OpenCL that are CPUs count "
      "as GPUs, too) or off",
      asked));
}

bool any_file(const char* folder, std::string_view beginning) {
  std::error_code failed;
  for (auto at = fs::directory_iterator(folder, failed); !failed && at != fs::directory_iterator();
       at.increment(failed)) {
    if (at->path().filename().string().starts_with(beginning)) return true;
  }
  return false;
}

/// Opening the platforms loads their libraries, which are large: it is not done on machines on
/// which the kernel knows no GPU.
bool may_have_gpu() {
  constexpr const char* kNodes[] = {"/dev/nvidiactl", "/dev/nvidia0", "/dev/kfd", "/dev/mali0",
                                    "/dev/dxg"};
  return std::ranges::any_of(kNodes, [](const char* node) { return access(node, F_OK) == 0; }) ||
         any_file("/dev/dri", "render");
}

/// The platforms stay open, and their devices the same, as long as the process lives.
const std::vector<gpu::DriverPtr>& drivers() {
  static const auto* const drivers = new std::vector(find_drivers());
  return *drivers;
}

}  // namespace

Found find_devices(const Search& search) {
  const std::string_view asked = environment();
  const bool with_cpus = search.opencl_cpus.value_or(asked == "cpu");
  if (asked == "off" || !(with_cpus || may_have_gpu())) return {};
  std::vector<gpu::DriverPtr> others;  // Those of vendors whose own backend has not found them.
  std::ranges::copy_if(drivers(), std::back_inserter(others), [&](const gpu::DriverPtr& driver) {
    return !search.found_vendors.contains(driver->description().vendor);
  });
  return devices_of(others, with_cpus);
}

Found devices_of(const std::vector<gpu::DriverPtr>& drivers, bool with_cpus) {
  Found found;
  const auto counts = [&](const gpu::DriverPtr& driver) {
    return with_cpus || !driver->description().is_cpu;
  };
  const auto sharing = std::ranges::count_if(drivers, [&](const gpu::DriverPtr& driver) {
    return counts(driver) && driver->description().shares_host_memory;
  });
  for (const gpu::DriverPtr& driver : drivers) {
    if (!counts(driver)) continue;
    const gpu::Description& description = driver->description();
    if (description.unusable.empty()) {
      const bool shares = description.shares_host_memory;
      found.usable.push_back(
          gpu::physical_gpu("opencl", driver, shares ? static_cast<int>(sharing) : 1));
    } else {
      found.unusable.push_back({description.name, "opencl", description.unusable});
    }
  }
  return found;
}

}  // namespace tandem::devices::opencl
