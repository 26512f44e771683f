// A function may use several devices: by scopes inside it, or by variables that live apart. This
// pass gives each call a device and cuts the graph into segments of one device each, as few as the
// order of the data allows. Each segment is then compiled as a program of its own
// (compiled_segment.h).
//
//   before   %1 = matmul(x, w) on GPU:0    %2 = exp(%1) on CPU:0    %3 = mul(%2, x) on GPU:0
//   after    segment 0, GPU:0: x -> %1        segment 1, CPU:0: %1 -> %2  segment 2, GPU:0: %2, x
//   -> %3
//
// What crosses from one segment to another is a result of the first and an argument of the second.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "device/placement_log.h"
#include "device/settings.h"
#include "graph/exchange_depths.h"
#include "graph/passes/extract.h"
#include "graph/passes/passes.h"
#include "graph/uses.h"
#include "op/registry.h"

namespace tandem::graph {
namespace {

using devices::DevicePtr;

/// Chooses a device for each node, in order.
class Placer {
 public:
  Placer(const Graph& graph, const DevicePtr& device)
      : graph_(graph), default_(device), device_of_value_(graph.values.size()) {}

  std::vector<DevicePtr> run() {
    std::vector<DevicePtr> chosen;
    for (const Node& node : graph_.nodes) {
      chosen.push_back(device_of(node));
      for (ValueId output : node.outputs) at(output) = chosen.back();
    }
    return chosen;
  }

 private:
  DevicePtr& at(ValueId value) { return device_of_value_[value]; }

  DevicePtr device_of(const Node& node) {
    DevicePtr wanted = node.device ? asked(node) : default_;
    for (ValueId range : node.ranges) {
      const StoreRange& variable = graph_.at(range).range;
      if (!variable.block->is_in(wanted->space())) return variable.block->components()[0]->device();
    }
    if (node.device) return wanted;
    if (!node.ranges.empty()) return default_;
    for (const DevicePtr& near :
         {node.near != kNoValue ? at(node.near) : nullptr, device_of_inputs(node)}) {
      if (near && has_kernels(node, *near)) return near;
    }
    return default_;
  }

  /// What the scope names, or with soft placement the host where a kernel is missing there.
  static const DevicePtr& asked(const Node& node) {
    const DevicePtr& host = devices::host_device();
    const bool falls_back = devices::settings.soft_placement && !has_kernels(node, *node.device) &&
                            has_kernels(node, *host);
    if (!falls_back) return node.device;
    devices::report_fallback(node.op().name,
                             {node.signature.str(), node.device->name(), host->name(),
                              fmt::format("no kernel on {}", node.device->name())});
    return host;
  }

  /// The device where most of a node's inputs are computed, by bytes; null where none is.
  const DevicePtr& device_of_inputs(const Node& node) {
    std::map<const devices::Device*, double> bytes;
    static const DevicePtr none;
    const DevicePtr* best = &none;
    for (ValueId input : node.inputs) {
      const DevicePtr& device = at(input);
      if (!device) continue;
      const op::TensorType& type = graph_.at(input).type;
      bytes[device.get()] += std::abs(static_cast<double>(type.shape.total_extent())) *
                             static_cast<double>(size_of(type.dtype));
      if (!*best || bytes[device.get()] > bytes[best->get()]) best = &device;
    }
    return *best;
  }

  static bool has_kernels(const Node& node, const devices::Device& device) {
    if (node.regions.empty()) return op::Registry::instance().has_kernel(node.signature, device);
    return std::ranges::all_of(node.regions, [&](const auto& region) {
      return std::ranges::all_of(region->graph.nodes,
                                 [&](const Node& inner) { return has_kernels(inner, device); });
    });
  }

  const Graph& graph_;
  const DevicePtr& default_;
  ValueMap<DevicePtr> device_of_value_;
};

/// Cuts the nodes into segments, each of one device, as few as following the order of data allows.
class Cutter {
 public:
  Cutter(const Graph& graph, const std::vector<DevicePtr>& devices)
      : graph_(graph), devices_(devices), segment_of_node_(graph.nodes.size(), -1) {
    find_predecessors();
  }

  std::vector<std::vector<size_t>> run() {
    std::vector<std::vector<size_t>> segments;
    for (size_t done = 0; done < graph_.nodes.size();) {
      segments.push_back(next_segment(static_cast<int>(segments.size())));
      done += segments.back().size();
    }
    read_late(segments);
    return segments;
  }

 private:
  /// Finds for each node the nodes that compute what it uses, and those that must have read or
  /// written its variables before it.
  void find_predecessors() {
    ValueMap<int> producer(graph_.values.size(), -1);
    // The users of each variable since it was last written.
    std::map<VariableMemory, std::vector<size_t>> users;
    predecessors_.resize(graph_.nodes.size());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      for (ValueId input : node.inputs) {
        if (const int p = producer[input]; p >= 0) {
          predecessors_[i].push_back(static_cast<size_t>(p));
        }
      }
      for (ValueId range : node.ranges) {
        auto& former = users[memory_of(graph_.at(range).range)];
        predecessors_[i].insert(predecessors_[i].end(), former.begin(), former.end());
        if (node.op().writes_ranges) former.clear();
        former.push_back(i);
      }
      for (ValueId output : node.outputs) producer[output] = static_cast<int>(i);
    }
  }

  bool is_ready(size_t node) const {
    return std::ranges::all_of(predecessors_[node],
                               [&](size_t before) { return segment_of_node_[before] >= 0; });
  }

  std::vector<size_t> next_segment(int index) {
    std::vector<size_t> segment;
    const devices::Device* device = nullptr;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (segment_of_node_[i] >= 0 || !is_ready(i)) continue;
      if (device == nullptr) device = devices_[i].get();
      if (devices_[i].get() != device) continue;
      segment_of_node_[i] = index;
      segment.push_back(i);
    }
    return segment;
  }

  /// A variable is read in the first segment that uses its value, or that writes it. From an
  /// earlier one the value would be handed on, as a copy.
  void read_late(std::vector<std::vector<size_t>>& segments) {
    const int none = static_cast<int>(segments.size());
    std::vector<DevicePtr> devices;
    for (const auto& segment : segments) devices.push_back(devices_[segment[0]]);
    std::vector<int> first_use(graph_.nodes.size(), none);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (size_t before : predecessors_[i]) {
        first_use[before] = std::min(first_use[before], segment_of_node_[i]);
      }
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      const bool reads = !node.ranges.empty() && node.inputs.empty() && !node.op().writes_ranges;
      const auto own = static_cast<size_t>(segment_of_node_[i]);
      if (!reads || first_use[i] == none ||
          devices[static_cast<size_t>(first_use[i])] != devices[own])
        continue;
      auto& later = segments[static_cast<size_t>(first_use[i])];
      std::erase(segments[own], i);
      later.insert(std::ranges::lower_bound(later, i), i);
    }
    std::erase_if(segments, [](const auto& segment) { return segment.empty(); });
  }

  const Graph& graph_;
  const std::vector<DevicePtr>& devices_;
  std::vector<int> segment_of_node_;
  std::vector<std::vector<size_t>> predecessors_;
};

/// True when the caller or a call outside of the segment, whose nodes are sorted, uses a value.
bool is_used_outside(const Uses& uses, ValueId value, const std::vector<size_t>& segment) {
  return std::ranges::any_of(uses.of(value), [&](const Use& use) {
    return !std::ranges::binary_search(segment, use.call);
  });
}

void report(const Graph& graph, const std::vector<DevicePtr>& placed,
            const FunctionPlacement& placement) {
  if (!devices::settings.log_placement) return;
  for (size_t i = 0; i < placed.size(); ++i) {
    std::string reason = fmt::format("its function runs there: {}", placement.reason);
    std::string asked = current_device_scope().str();
    if (graph.nodes[i].device) {
      asked = graph.nodes[i].device->name();
      reason = placed[i] == graph.nodes[i].device ? "a scope inside the function names it"
                                                  : "its variable lives there";
    } else if (placed[i] != placement.device) {
      reason = "its variable or most of its inputs are there";
    }
    const auto write = [&](const Node& node) {
      devices::report_placement({node.signature.str(), asked, placed[i]->name(), reason});
    };
    write(graph.nodes[i]);
    for (const auto& region : graph.nodes[i].regions) for_each_node(region->graph, write);
  }
}

/// A graph that is all on one device.
Partition whole(Graph graph, const DevicePtr& device) {
  Partition result;
  Segment segment{.device = device, .graph = std::move(graph), .inputs = {}};
  const int arguments = static_cast<int>(segment.graph.arguments.size());
  for (int i = 0; i < arguments; ++i) segment.inputs.push_back(i);
  for (size_t i = 0; i < segment.graph.results.size(); ++i) {
    result.results.push_back(arguments + static_cast<int>(i));
  }
  result.segments.push_back(std::move(segment));
  return result;
}

}  // namespace

Partition partition(Graph graph, const FunctionPlacement& placement) {
  std::vector<DevicePtr> placed = Placer(graph, placement.device).run();
  report(graph, placed, placement);
  if (std::ranges::all_of(placed, [&](const DevicePtr& d) { return d == placement.device; })) {
    return whole(std::move(graph), placement.device);
  }
  make_smaller(graph);  // What need not be computed need not cross either.
  copy_shared_results(graph);
  placed = Placer(graph, placement.device).run();
  Partition result;
  ValueMap<int> tensor_of(graph.values.size(), -1);
  int tensors = 0;
  for (ValueId argument : graph.arguments) tensor_of[argument] = tensors++;
  const Uses uses(graph);
  for (const std::vector<size_t>& nodes : Cutter(graph, placed).run()) {
    Extract extract(graph, nodes, placed[nodes[0]], tensor_of);
    for (size_t node : nodes) {
      for (ValueId output : graph.nodes[node].outputs) {
        if (is_used_outside(uses, output, nodes)) extract.add_result(output, tensors++);
      }
    }
    result.segments.push_back(extract.take());
  }
  for (ValueId value : graph.results) {
    result.results.push_back(tensor_of[value]);
  }
  return result;
}

}  // namespace tandem::graph
