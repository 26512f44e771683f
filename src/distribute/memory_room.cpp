#include "distribute/memory_room.h"

#include <algorithm>

#include "tandem/config.h"

namespace tandem::distribute {
namespace {

/// The limit of a logical device: its own, else its share of what the machine has; 0 where nobody
/// knows.
size_t limit_of(const std::string& name) {
  if (const size_t own = config::get_memory_info(name).limit; own != 0) return own;
  const auto logical = config::list_logical_devices();
  const auto found = std::ranges::find(logical, name, &config::LogicalDevice::name);
  if (found == logical.end()) return 0;
  const auto sharing = static_cast<size_t>(
      std::ranges::count(logical, found->physical, &config::LogicalDevice::physical));
  for (const config::PhysicalDevice& physical : config::list_physical_devices()) {
    if (physical.name == found->physical) return physical.memory / sharing;
  }
  return 0;
}

}  // namespace

bool has_room(const MemoryPlan& plan, size_t batch_bytes) {
  constexpr size_t kInFlight = 2;  // Batches on their way to a device.
  return std::ranges::all_of(plan.devices, [&](const MemoryPlan::Device& device) {
    const size_t limit = limit_of(device.name);
    const size_t needed =
        config::get_memory_info(device.name).current + device.bytes() + kInFlight * batch_bytes;
    return limit == 0 || needed <= limit / 10 * 9;
  });
}

size_t row_bytes(const Tensors& batch) {
  size_t bytes = 0;
  for (const Tensor& tensor : batch) {
    const int64_t rows = std::max<int64_t>(tensor.shape()[0], 1);
    bytes += static_cast<size_t>(tensor.shape().count() / rows) * size_of(tensor.dtype());
  }
  return bytes;
}

}  // namespace tandem::distribute
