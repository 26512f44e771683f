/// Compares what the replicas hold of variables.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "distribute/strategy_body.h"
#include "tandem/config.h"
#include "tandem/error.h"

namespace tandem::distribute {
namespace {

/// The checksum of the bytes that one component holds of a variable.
uint64_t checksum(const StoreRange& range, const Buffer& component) {
  const devices::DevicePtr& device = component.device();
  device->queue().record().wait(config::wait_deadline());
  const size_t size = size_of(range.block->dtype());
  std::string bytes(static_cast<size_t>(range.count) * size, '\0');
  device->space().copy_to_host(
      bytes.data(),
      static_cast<const char*>(component.data()) + static_cast<size_t>(range.offset) * size,
      bytes.size());
  return std::hash<std::string_view>()(bytes);
}

}  // namespace

void Strategy::verify(const Variables& variables) const {
  for (const Variable& variable : variables) {
    const StoreRange& range = variable.body()->range;
    if (!range.is_same_for_all()) continue;
    const auto& components = range.block->components();
    const uint64_t first = components.size() < 2 ? 0 : checksum(range, *components[0]);
    for (size_t c = 1; c < components.size(); ++c) {
      if (checksum(range, *components[c]) == first) continue;
      const auto& devices = body_->devices();
      const auto space = [](const devices::DevicePtr& device) { return &device->space(); };
      const auto differs = std::ranges::find(devices, space(components[c]->device()), space);
      throw DataLoss(
          fmt::format("verify: replica {} on {} has other values of variable '{}' than replica 0 "
                      "on {}; restore "
                      "the last checkpoint",
                      differs - devices.begin(), components[c]->device()->name(), variable.name(),
                      components[0]->device()->name()));
    }
  }
}

}  // namespace tandem::distribute
