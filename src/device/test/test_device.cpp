#include "device/test/test_device.h"

#include <fmt/format.h>

#include "device/inventory.h"
#include "device/test/late_queue.h"
#include "tandem/config.h"
#include "tandem/error.h"

namespace tandem::devices::test {
namespace {

/// `missing`, and variables that are neither of a float type nor int64, the type of counters of
/// steps: GPUs have no kernels for them.
std::set<std::string> without_small_integer_variables(std::set<std::string> missing) {
  for (const char* op : {"read_variable", "assign", "assign_add", "assign_sub"}) {
    for (DType dtype : {DType::uint8, DType::int32, DType::boolean, DType::int8, DType::int16,
                        DType::uint16, DType::uint32, DType::uint64}) {
      missing.insert(fmt::format("{} {}", op, name_of(dtype)));
    }
  }
  return missing;
}

}  // namespace

void add_test_gpu(const TestDeviceOptions& options) {
  const auto next = static_cast<int>(config::list_physical_devices("GPU").size());
  if (options.index != next) {
    throw InvalidArgument(
        fmt::format("test device: GPU:{} {}; the next one is GPU:{}", options.index,
                    options.index < next ? "exists already" : "leaves a gap", next));
  }
  Physical gpu;
  gpu.description.type = "GPU";
  gpu.description.backend = "test";
  gpu.description.memory = options.memory;
  gpu.open = [options](const DeviceSpec& spec, const config::LogicalDeviceConfiguration&) {
    const auto timeline_for = [&](const char* role) {
      return std::make_shared<LateTimeline>(
          LateOptions{spec.str(), options.delay, options.random_delay, options.stuck, role});
    };
    const auto timeline = timeline_for("");
    const auto memory = std::make_shared<LateMemory>(spec.str(), options.memory, timeline);
    Device::Options device;
    device.own_space = memory;
    device.queue = std::make_unique<LateQueue>(timeline, memory);
    device.input_queue = std::make_unique<LateQueue>(timeline_for("input"), memory);
    device.exchange_queue = std::make_unique<LateQueue>(timeline_for("exchange"), memory);
    device.missing_kernels = without_small_integer_variables(options.missing_kernels);
    return device;
  };
  Inventory::instance().add(std::move(gpu));
}

}  // namespace tandem::devices::test

namespace tandem::config {

void add_test_device(const TestDevice& device) {
  devices::test::add_test_gpu(
      {.index = static_cast<int>(list_physical_devices("GPU").size()),
       .delay = device.delay,
       .missing_kernels = {device.missing_kernels.begin(), device.missing_kernels.end()},
       .memory = device.memory});
}

}  // namespace tandem::config
