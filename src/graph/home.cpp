#include "graph/home.h"

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

struct Home {
  DevicePtr device;
  std::string reason;
  bool is_fallback = false;
};

/// The first op without a kernel on `device`, or null.
const Node* without_kernel(const Graph& graph, const devices::Device& device) {
  const auto found = std::ranges::find_if(graph.nodes, [&](const Node& node) {
    return !op::Registry::instance().has_kernel(node.signature, device);
  });
  return found == graph.nodes.end() ? nullptr : &*found;
}

/// The device of the first variable, or null.
const DevicePtr* variable_home(const Graph& graph) {
  for (const Value& value : graph.values) {
    if (value.source == Value::Source::range) return &value.range.block->components()[0]->device();
  }
  return nullptr;
}

/// True when `device` reaches every variable and has every kernel.
bool can_run(const Graph& graph, const devices::Device& device) {
  const auto reaches = [&](const Value& value) {
    if (value.source != Value::Source::range) return true;
    return std::ranges::any_of(value.range.block->components(), [&](const auto& component) {
      return &component->device()->space() == &device.space();
    });
  };
  return std::ranges::all_of(graph.values, reaches) && without_kernel(graph, device) == nullptr;
}

Home choose(const Graph& graph, const DevicePtr* asked) {
  if (asked != nullptr) {
    if (settings.soft_placement && devices::scope_device_is_missing()) {
      return {*asked, fmt::format("{} does not exist", current_device_scope().str()), true};
    }
    const DevicePtr& host = devices::host_device();
    const Node* missing = settings.soft_placement ? without_kernel(graph, **asked) : nullptr;
    if (missing == nullptr || !can_run(graph, *host)) return {*asked, "it was asked for"};
    return {host, fmt::format("no kernel on {} for {}", (*asked)->name(), missing->signature.str()),
            true};
  }
  if (const DevicePtr* home = variable_home(graph))
    return {*home, "its first variable lives there"};
  const auto& order = devices::placement_order();
  for (const DevicePtr& device : order) {
    if (without_kernel(graph, *device) == nullptr) {
      return {device, device == order[0] ? "first device" : "first device with all kernels"};
    }
  }
  return {order[0], "first device"};
}

void report(const Graph& graph, const Home& home) {
  const std::string requested = current_device_scope().str();
  if (home.is_fallback) {
    devices::report_fallback("function", {"function", requested, home.device->name(), home.reason});
  }
  if (!settings.log_placement) return;
  for (const Node& node : graph.nodes) {
    devices::report_placement({node.signature.str(), requested, home.device->name(),
                               fmt::format("its function runs there: {}", home.reason)});
  }
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

DevicePtr home_of(const Graph& graph, const DevicePtr* asked) {
  const Home home = choose(graph, asked);
  report(graph, home);
  return home.device;
}

void check_kernels(const Graph& graph, const devices::Device& device) {
  if (const Node* missing = without_kernel(graph, device)) {
    op::Registry::instance().prepare(missing->signature, device, 1);  // Says what there is.
  }
}

}  // namespace tandem::graph
