#include "runtime/placement.h"

#include <algorithm>

#include "device/scope.h"
#include "op/registry.h"

namespace tandem::runtime {

namespace {

bool has_component(const StoreRange& range, const devices::Device& device) {
  return std::ranges::any_of(range.block->components(), [&](const auto& component) {
    return &component->device()->space() == &device.space();
  });
}

}  // namespace

const devices::DevicePtr& place(const op::Signature& signature, const op::RangeOperands& ranges) {
  const devices::DevicePtr* scoped = devices::scope_device();
  if (!ranges.empty() && !(scoped != nullptr && has_component(ranges[0].range, **scoped))) {
    return ranges[0].range.block->components()[0]->device();
  }
  if (scoped != nullptr) return *scoped;
  const auto& order = devices::placement_order();
  if (order.size() > 1) {
    for (const auto& device : order) {
      if (op::Registry::instance().has_kernel(signature, *device)) return device;
    }
  }
  return order[0];
}

}  // namespace tandem::runtime
