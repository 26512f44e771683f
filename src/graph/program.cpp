#include "graph/program.h"

#include <algorithm>

#include "core/alignment.h"
#include "core/compute_scope.h"
#include "core/sizes.h"
#include "graph/control_kernels.h"
#include "graph/group_exchange.h"
#include "graph/passes/passes.h"
#include "op/registry.h"

namespace tandem::graph {
namespace {

/// A call of a few numbers costs less than a barrier, which two of them need not have between them
/// where one thread makes both.
bool is_small(const Node& node) {
  if (node.op().is_collective || !node.regions.empty()) return false;
  int64_t elements = 0;
  for (const op::TensorTypes* types :
       {&node.signature.inputs, &node.signature.outputs, &node.signature.ranges}) {
    for (const op::TensorType& type : *types) {
      if (type.shape.total_extent() < 0) return false;  // Its size follows the batch.
      elements += type.shape.total_extent();
    }
  }
  return elements <= op::Split::kChunk;
}

/// The number of parts of the variables that a call writes, of which each replica has one; 0 where
/// it writes others.
int parts_written(const Graph& graph, const Node& node) {
  if (!node.op().writes_ranges || node.ranges.empty()) return 0;
  const StoreRange& range = graph.at(node.ranges[0]).range;
  return range.is_own_part() ? range.block->parts() : 0;
}

/// True for a collective in which each replica makes its own results, and no other's.
bool is_for_itself(const Node& node) {
  const std::string& name = node.op().name;
  return name == "join_parts" || name == "join_start" || name == "join_finish" ||
         name == "sum_to_part";
}

/// A call that was prepared for one thread, and that the first thread runs.
class Alone final : public op::Executable {
 public:
  explicit Alone(op::ExecutablePtr inner) : inner_(std::move(inner)) {}

  void run(const op::Launch& launch) const override {
    if (launch.part != 0) return;
    op::Launch whole = launch;
    whole.parts = 1;
    inner_->run(whole);
  }
  size_t workspace_bytes() const override { return inner_->workspace_bytes(); }
  int phases() const override { return inner_->phases(); }
  const char* provider() const override { return inner_->provider(); }

 private:
  const op::ExecutablePtr inner_;
};

/// A collective between devices that do not share memory. It stands in the plan for people to see;
/// what it does is done between two stretches of instructions.
class Exchanged final : public op::Executable {
 public:
  void run(const op::Launch&) const override { throw Unimplemented("exchanged, not launched"); }
  const char* provider() const override { return "exchange"; }
};

op::ExecutablePtr prepare_instruction(const Program& program, const Instruction& instruction,
                                      const op::Signature& signature, int64_t rows,
                                      const devices::DevicePtr& device, int parts) {
  const Node& node = instruction.node;
  if (is_group_exchange(node)) return prepare_group_exchange(program, node, signature);
  if (!node.regions.empty()) return prepare_control_flow(node, signature, rows, device, parts);
  if (node.op().is_collective && !device->works_on_threads()) return std::make_shared<Exchanged>();
  auto& registry = op::Registry::instance();
  if (!instruction.alone || parts == 1) return registry.prepare(signature, *device, parts);
  return std::make_shared<Alone>(registry.prepare(signature, *device, 1));
}

/// What the threads of a replica save by sharing a plan's calls, and what their meetings cost. The
/// figures are those of calls whose data is in the cache.
class SharingGain {
 public:
  void add(const Instruction& instruction, const op::Signature& signature,
           const op::Executable& executable, const op::Cost& cost) {
    const Node& node = instruction.node;
    is_known_ &= node.regions.empty();
    meetings_ += (instruction.barrier == BarrierScope::none ? 0 : 1) + executable.phases() - 1;
    const bool is_shared = executable.phases() > 1 || node.op().split(signature).extent > 1;
    if (is_shared && !instruction.alone) work_ += std::max(cost.flops, cost.bytes);
  }

  bool is_worth_it(int threads) const {
    constexpr double kHandOver = 4e-6;  // Seconds from the caller to the others and back.
    constexpr double kMeeting = 0.5e-6;
    constexpr double kPerSecond = 40e9;  // Operations, or bytes, that a thread makes in a second.
    const double saved = work_ / kPerSecond * (threads - 1) / threads;
    return !is_known_ || saved > kHandOver + kMeeting * meetings_;
  }

 private:
  bool is_known_ = true;  // What regions do depends on values.
  int meetings_ = 0;
  double work_ = 0;
};

}  // namespace

Program::Program(Graph graph, Runners runners)
    : graph_(std::move(graph)), runners_(std::move(runners)) {
  const int replicas = runners_.local;
  optimize(graph_, runners_);
  for (const Node& node : graph_.nodes) {
    const bool own_values = std::ranges::any_of(
        node.ranges, [&](ValueId range) { return !graph_.at(range).range.is_same_for_all(); });
    const bool shares_work = (node.op().is_collective && !is_for_itself(node)) ||
                             (node.op().writes_ranges && !own_values);
    const bool whole_team = replicas > 1 && shares_work;
    // Over several processes no two replicas of one have the same part.
    const int parts = replicas > 1 && !runners_.group ? parts_written(graph_, node) : 0;
    instructions_.push_back(
        {node, BarrierScope::none, whole_team, !whole_team && parts == 0 && is_small(node), parts});
  }
  for_each_node(graph_, [&](const Node& node) { writes_variables_ |= node.op().writes_ranges; });
  if (runners_.group) {
    bucket_tickets_ = std::make_shared<BucketTickets>();
    bucket_tickets_->buckets.resize(static_cast<size_t>(exchanges()));
  }
  memory_ = assign_memory(graph_);
  place_barriers(graph_, memory_, replicas, instructions_);
}

int Program::exchanges() const {
  return static_cast<int>(std::ranges::count_if(graph_.nodes, [](const Node& node) {
    return is_group_exchange(node) && !node.op().name.ends_with("_finish");
  }));
}

Plan make_plan(const Program& program, int64_t rows, const devices::DevicePtr& device,
               int subteam_size, int team_size) {
  const core::ComputeScope computing;
  Plan plan;
  plan.rows = rows;
  SharingGain gain;
  int workspaces = 0;
  for (const Instruction& instruction : program.instructions()) {
    const Node& node = instruction.node;
    int parts = instruction.whole_team ? team_size : subteam_size;
    if (instruction.parts > 0) parts *= program.replicas() / instruction.parts;
    const op::Signature signature = node.signature.resolved(rows);
    plan.executables.push_back(
        prepare_instruction(program, instruction, signature, rows, device, parts));
    plan.costs.push_back(op::cost_of(signature));
    gain.add(instruction, signature, *plan.executables.back(), plan.costs.back());
    if (const size_t bytes = plan.executables.back()->workspace_bytes(); bytes > 0) {
      plan.workspace_bytes = std::max(plan.workspace_bytes, core::aligned(bytes));
      workspaces = std::max(workspaces, parts);
    }
    std::vector<int> operands;
    for (const ValueIds* values : {&node.inputs, &node.outputs, &node.ranges}) {
      for (ValueId value : *values) operands.push_back(static_cast<int>(value));
    }
    plan.operands.push_back(std::move(operands));
  }
  size_t end = 0;
  for (const ValueIds& values : program.memory().values) {
    size_t largest = 0;
    for (ValueId value : values) {
      largest = std::max(largest, program.graph().at(value).type.bytes(rows));
    }
    plan.offsets.push_back(end);
    end = size_sum(end, core::aligned(largest));
  }
  plan.is_small = !gain.is_worth_it(subteam_size);
  plan.workspace_offset = end;
  plan.arena_bytes =
      size_sum(end, size_product(plan.workspace_bytes, static_cast<size_t>(workspaces)));
  return plan;
}

}  // namespace tandem::graph
