#include "device/gpu/gpu_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "device/gpu/gpu_queue.h"

namespace tandem::devices::gpu {
namespace {

std::atomic<int> asked_form{-1};

KernelForm form_for(const Description& description) {
  if (asked_form >= 0) return static_cast<KernelForm>(asked_form.load());
  return description.is_cpu ? KernelForm::serial : KernelForm::parallel;
}

/// Variables of other types than floats and int64, the type of counters of steps, are not for GPUs.
std::set<std::string> without_small_integer_variables() {
  std::set<std::string> missing;
  for (const char* op : {"read_variable", "assign", "assign_add", "assign_sub"}) {
    for (DType dtype : {DType::uint8, DType::int32, DType::boolean, DType::int8, DType::int16,
                        DType::uint16, DType::uint32, DType::uint64}) {
      missing.insert(fmt::format("{} {}", op, name_of(dtype)));
    }
  }
  return missing;
}

}  // namespace

void set_kernel_form(std::optional<KernelForm> form) {
  asked_form = form ? static_cast<int>(*form) : -1;
}

Physical physical_gpu(const std::string& backend, DriverPtr driver, int sharing) {
  const Description& found = driver->description();
  // Something is left for others, and for what the driver itself needs.
  const size_t usable = found.memory / 10 * 9 / static_cast<size_t>(sharing);
  Physical gpu;
  gpu.description.type = "GPU";
  gpu.description.backend = backend;
  gpu.description.memory = usable;
  gpu.description.hardware = found.name;
  gpu.description.vendor = found.vendor;
  gpu.description.driver = found.driver;
  gpu.description.units = found.units;
  gpu.open = [driver, usable](const DeviceSpec& spec,
                              const config::LogicalDeviceConfiguration& part) {
    const std::string name = spec.str();
    const auto memory = std::make_shared<GpuMemory>(name, driver);
    const auto compiler = compiler_of(name, driver, form_for(driver->description()));
    const auto clock = std::make_shared<ClockOffset>();
    const auto queue_for = [&](GpuTimeline::Role role) {
      const auto timeline = std::make_shared<GpuTimeline>(name, role, memory, compiler, clock);
      return std::make_unique<GpuQueue>(timeline, compiler);
    };
    Device::Options options;
    options.kernels = "gpu";
    options.own_space = memory;
    options.queue = queue_for(GpuTimeline::Role::compute);
    options.input_queue = queue_for(GpuTimeline::Role::input);
    options.exchange_queue = queue_for(GpuTimeline::Role::exchange);
    options.missing_kernels = without_small_integer_variables();
    options.memory_limit = part.memory_limit == 0 ? usable : std::min(part.memory_limit, usable);
    return options;
  };
  return gpu;
}

}  // namespace tandem::devices::gpu
