#include "graph/function_placement.h"

#include <fmt/format.h>

#include <algorithm>

#include "device/placement_log.h"
#include "device/scope.h"
#include "device/settings.h"
#include "op/registry.h"
#include "tandem/error.h"

namespace tandem::graph {
namespace {

using devices::DevicePtr;
using devices::settings;

struct FunctionChoice {
  FunctionPlacement placement;
  bool is_fallback = false;
};

/// The first op without a kernel on `device`, or null. What asks for a device of its own does not
/// count.
const Node* without_kernel(const Graph& graph, const devices::Device& device) {
  const Node* missing = nullptr;
  for_each_node(graph, [&](const Node& node) {
    const bool elsewhere = node.device && node.device.get() != &device;
    if (missing != nullptr || !node.regions.empty() || elsewhere) return;
    if (!op::Registry::instance().has_kernel(node.signature, device)) missing = &node;
  });
  return missing;
}

/// The device of the first variable, or null.
const DevicePtr* first_variable_device(const Graph& graph) {
  for (const Value& value : graph.values) {
    if (value.source == Value::Source::range) return &value.range.block->components()[0]->device();
  }
  return nullptr;
}

FunctionChoice choose(const Graph& graph, const DevicePtr* asked) {
  if (asked != nullptr) {
    if (settings.soft_placement && devices::scope_device_is_missing()) {
      return {{*asked, fmt::format("{} does not exist", current_device_scope().str())}, true};
    }
    const DevicePtr& host = devices::host_device();
    const Node* missing = settings.soft_placement ? without_kernel(graph, **asked) : nullptr;
    if (missing == nullptr || without_kernel(graph, *host) != nullptr)
      return {{*asked, "it was asked for"}};
    return {
        {host, fmt::format("no kernel on {} for {}", (*asked)->name(), missing->signature.str())},
        true};
  }
  if (const DevicePtr* device = first_variable_device(graph))
    return {{*device, "its first variable lives there"}};
  const auto& order = devices::placement_order();
  for (const DevicePtr& device : order) {
    if (without_kernel(graph, *device) == nullptr) {
      return {{device, device == order[0] ? "first device" : "first device with all kernels"}};
    }
  }
  return {{order[0], "first device"}};
}

}  // namespace

const DevicePtr* asked_by_scope() {
  const DevicePtr* asked = nullptr;
  try {
    asked = devices::scope_device();
  } catch (const NotFound& error) {
    error.rethrow_within("function");
  }
  return asked;
}

FunctionPlacement place_function(const Graph& graph, const DevicePtr* asked) {
  FunctionChoice choice = choose(graph, asked);
  if (choice.is_fallback) {
    devices::report_fallback(
        "function", {"function", current_device_scope().str(), choice.placement.device->name(),
                     choice.placement.reason});
  }
  return std::move(choice.placement);
}

void check_kernels(const Graph& graph, const devices::Device& device) {
  if (const Node* missing = without_kernel(graph, device)) {
    // Throws NotFound, which lists the kernels that exist.
    op::Registry::instance().prepare(missing->signature, device, 1);
  }
}

}  // namespace tandem::graph
