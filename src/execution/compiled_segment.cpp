#include "execution/compiled_segment.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "execution/device_edges.h"
#include "runtime/random_calls.h"
#include "tensor/body.h"
#include "tensor/row_slices.h"

namespace tandem::graph {

Tensors run_segments(const std::string& function, const std::vector<CompiledSegment>& segments,
                     std::span<const Argument> arguments, int64_t rows) {
  Tensors tensors;
  for (const Argument& argument : arguments) tensors.push_back(whole(argument.of(0)));
  const op::RandomRun random = runtime::next_random_run(segments[0].program->graph().random_calls);
  const BatchShard shard{.rows = rows};
  std::map<std::pair<int, const devices::MemorySpace*>, Tensor> copies;  // Or the tensor itself.
  std::vector<Results> held;  // The first one's keep other threads' calls waiting until the end.
  for (const CompiledSegment& segment : segments) {
    const devices::DevicePtr& device = segment.replicas->devices[0];
    ArgumentList inputs;
    for (int tensor : segment.inputs) {
      Tensor& here = copies[{tensor, &device->space()}];
      if (!here.defined()) {
        here = input_on_device(tensors[static_cast<size_t>(tensor)], device, "function");
      }
      inputs.push_back({&here});
    }
    held.push_back(segment.executions->run(
        function, {.tensors = inputs, .shards = {&shard, 1}, .random = &random}));
    for (size_t i = 0; i < held.back().count(); ++i) tensors.push_back(held.back().at(0, i));
  }
  return tensors;
}

namespace {

/// A value that a segment computes and another one, in another memory space, needs a copy of.
struct SegmentEdge {
  const devices::Device* from;
  const devices::Device* to;
  size_t bytes;
};

/// All of them in the order of the calls, each once. `arguments` tensors of a call come first;
/// where they lie is not known.
std::vector<SegmentEdge> edges_of(const std::vector<CompiledSegment>& segments, size_t arguments,
                                  int64_t rows) {
  std::vector<SegmentEdge> edges;
  // Each replica hands on what it has computed itself.
  std::vector<const Replicas*> computed_by(arguments);
  std::set<std::pair<int, const devices::MemorySpace*>> copied;
  for (const CompiledSegment& segment : segments) {
    const auto& devices = segment.replicas->devices;
    const Graph& graph = segment.program->graph();
    for (size_t i = 0; i < segment.inputs.size(); ++i) {
      const Replicas* by = computed_by[static_cast<size_t>(segment.inputs[i])];
      for (size_t r = 0; r < devices.size() && by != nullptr; ++r) {
        const devices::Device& from = *by->devices[r % by->devices.size()];
        const devices::Device& to = *devices[r];
        if (&from.space() == &to.space()) continue;
        if (!copied.insert({segment.inputs[i], &to.space()}).second) continue;
        edges.push_back({&from, &to, graph.at(graph.arguments[i]).type.bytes(rows)});
      }
    }
    computed_by.resize(computed_by.size() + graph.results.size(), segment.replicas.get());
  }
  return edges;
}

}  // namespace

std::string explain_edges(const std::vector<CompiledSegment>& segments, size_t arguments,
                          int64_t rows) {
  DeviceEdges edges;
  for (const SegmentEdge& edge : edges_of(segments, arguments, rows)) {
    edges.add(edge.from->name(), edge.to->name(), edge.bytes);
  }
  return edges.str(fmt::format("in a call with {} rows", rows));
}

MemoryPlan memory_plan_of(const std::vector<CompiledSegment>& segments, size_t arguments,
                          int64_t rows) {
  MemoryPlan all;
  const auto entry = [&](const std::string& name) -> MemoryPlan::Device& {
    const auto known = std::ranges::find(all.devices, name, &MemoryPlan::Device::name);
    if (known != all.devices.end()) return *known;
    all.devices.push_back({name});
    return all.devices.back();
  };
  for (const CompiledSegment& segment : segments) {
    for (const MemoryPlan::Device& own : segment.executions->memory_plan(rows).devices) {
      MemoryPlan::Device& device = entry(own.name);
      device.arena_bytes += own.arena_bytes;
      device.result_bytes += own.result_bytes;
      device.copy_bytes += own.copy_bytes;
    }
  }
  for (const SegmentEdge& edge : edges_of(segments, arguments, rows)) {
    entry(edge.to->name()).copy_bytes += devices::Allocator::rounded(edge.bytes);
  }
  return all;
}

}  // namespace tandem::graph
