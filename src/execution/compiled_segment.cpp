#include "execution/compiled_segment.h"

#include <algorithm>
#include <map>
#include <set>

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

MemoryPlan memory_plan_of(const std::vector<CompiledSegment>& segments, size_t arguments,
                          int64_t rows) {
  MemoryPlan all;
  const auto entry = [&](const std::string& name) -> MemoryPlan::Device& {
    const auto known = std::ranges::find(all.devices, name, &MemoryPlan::Device::name);
    if (known != all.devices.end()) return *known;
    all.devices.push_back({name});
    return all.devices.back();
  };
  // The memory space of each tensor of the call.
  std::vector<const devices::MemorySpace*> lies_in(arguments);
  std::set<std::pair<int, const devices::MemorySpace*>> copied;
  for (const CompiledSegment& segment : segments) {
    for (const MemoryPlan::Device& own : segment.executions->memory_plan(rows).devices) {
      MemoryPlan::Device& device = entry(own.name);
      device.arena_bytes += own.arena_bytes;
      device.result_bytes += own.result_bytes;
      device.copy_bytes += own.copy_bytes;
    }
    const devices::MemorySpace& space = segment.replicas->devices[0]->space();
    const Graph& graph = segment.program->graph();
    for (size_t i = 0; i < segment.inputs.size(); ++i) {
      const auto* from = lies_in[static_cast<size_t>(segment.inputs[i])];
      if (from == nullptr || from == &space) continue;
      if (!copied.insert({segment.inputs[i], &space}).second) continue;
      const op::TensorType& type = graph.at(graph.arguments[i]).type;
      entry(segment.replicas->devices[0]->name()).copy_bytes +=
          devices::Allocator::rounded(type.bytes(rows));
    }
    lies_in.resize(lies_in.size() + graph.results.size(), &space);
  }
  return all;
}

}  // namespace tandem::graph
