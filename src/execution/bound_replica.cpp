#include "execution/bound_replica.h"

namespace tandem::graph {

op::Launch launch_of(const Program& program, const BoundReplica& replica, size_t instruction) {
  const Node& node = program.instructions()[instruction].node;
  const Plan& plan = *replica.current->plan;
  op::Launch launch;
  launch.addresses = replica.current->addresses.data();
  launch.operands = plan.operands[instruction].data();
  launch.inputs = static_cast<int>(node.inputs.size());
  launch.outputs = static_cast<int>(node.outputs.size());
  launch.step = &replica.step;
  launch.random_call = node.random_call;
  launch.workspaces = static_cast<char*>(replica.arena->data()) + plan.workspace_offset;
  launch.workspace_stride = plan.workspace_bytes;
  return launch;
}

profile::Span span_of(const Instruction& instruction, const op::Cost& cost, double share) {
  const op::OpDef& op = instruction.node.op();
  return {op.name.c_str(),
          op.is_collective ? profile::Activity::reduce : profile::Activity::compute,
          cost.flops * share, cost.bytes * share};
}

}  // namespace tandem::graph
