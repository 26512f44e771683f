#include "graph/program.h"

#include <algorithm>

#include "core/compute_scope.h"
#include "graph/control_flow.h"
#include "graph/passes/passes.h"
#include "op/registry.h"

namespace tandem::graph {
namespace {

constexpr size_t kAlignment = 64;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

size_t bytes_of(const op::TensorType& type, int64_t rows) {
  return static_cast<size_t>(type.shape.resolved(rows).count()) * size_of(type.dtype);
}

Cost cost_of(const op::Signature& s) {
  Cost cost;
  for (const op::TensorTypes* types : {&s.inputs, &s.outputs, &s.ranges}) {
    for (const op::TensorType& type : *types) {
      cost.bytes +=
          static_cast<double>(type.shape.count()) * static_cast<double>(size_of(type.dtype));
    }
  }
  if (s.op->flops) {
    cost.flops = s.op->flops(s);
  } else if (!s.outputs.empty()) {
    cost.flops = static_cast<double>(s.outputs[0].shape.count());
  }
  return cost;
}

}  // namespace

Program::Program(Graph graph, int replicas) : graph_(std::move(graph)), replicas_(replicas) {
  optimize(graph_);
  for (const Node& node : graph_.nodes) {
    const bool own_values = std::ranges::any_of(
        node.ranges, [&](int range) { return !graph_.at(range).range.is_same_for_all(); });
    const bool shares_work = node.op().is_collective || (node.op().writes_ranges && !own_values);
    instructions_.push_back({node, Barrier::none, replicas > 1 && shares_work});
  }
  for_each_node(graph_, [&](const Node& node) { is_random_ |= node.op().is_random; });
  memory_ = assign_memory(graph_);
  place_barriers(graph_, memory_, replicas, instructions_);
}

Plan make_plan(const Program& program, int64_t rows, const devices::DevicePtr& device,
               int squad_size, int team_size) {
  const core::ComputeScope computing;
  Plan plan;
  plan.rows = rows;
  int workspaces = 0;
  for (const Instruction& instruction : program.instructions()) {
    const Node& node = instruction.node;
    const int parts = instruction.whole_team ? team_size : squad_size;
    const op::Signature signature = node.signature.resolved(rows);
    plan.executables.push_back(node.regions.empty()
                                   ? op::Registry::instance().prepare(signature, *device, parts)
                                   : prepare_control_flow(node, signature, rows, device, parts));
    plan.costs.push_back(cost_of(signature));
    if (const size_t bytes = plan.executables.back()->workspace_bytes(); bytes > 0) {
      plan.workspace_bytes = std::max(plan.workspace_bytes, aligned(bytes));
      workspaces = std::max(workspaces, parts);
    }
    std::vector<int> operands = node.inputs;
    operands.insert(operands.end(), node.outputs.begin(), node.outputs.end());
    operands.insert(operands.end(), node.ranges.begin(), node.ranges.end());
    plan.operands.push_back(std::move(operands));
  }
  size_t end = 0;
  for (const std::vector<int>& values : program.memory().values) {
    size_t largest = 0;
    for (int value : values) {
      largest = std::max(largest, bytes_of(program.graph().at(value).type, rows));
    }
    plan.offsets.push_back(end);
    end += aligned(largest);
  }
  plan.workspace_offset = end;
  plan.arena_bytes = end + plan.workspace_bytes * static_cast<size_t>(workspaces);
  return plan;
}

}  // namespace tandem::graph
