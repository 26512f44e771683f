#include "runtime/placement.h"

#include "device/scope.h"
#include "op/registry.h"

namespace tandem::runtime {

const devices::DevicePtr& place(const op::Signature& signature, const op::RangeOperands& ranges) {
  if (const devices::DevicePtr* scoped = devices::scope_device()) return *scoped;
  if (!ranges.empty()) return ranges[0].range.block->components()[0]->device();
  const auto& order = devices::placement_order();
  if (order.size() > 1) {
    for (const auto& device : order) {
      if (op::Registry::instance().has_kernel(signature, *device)) return device;
    }
  }
  return order[0];
}

}  // namespace tandem::runtime
