/// Puts a program's instructions on the queue of a replica's device.
#pragma once

#include "execution/bound_replica.h"

namespace tandem::graph {

/// Brings the step's scalars to the device. To be called once a run, before the first instruction.
void issue_step(BoundReplica& replica);

/// Issues one instruction, or the share of it. Errors of its commands begin with `name` if it is
/// not empty.
void issue_instruction(const Program& program, const BoundReplica& replica, size_t instruction,
                       const std::string& name, const Share& share = {});

/// Copies an argument from another memory space to the place that it always has here.
void land(BoundReplica& replica, size_t argument, const BodyPtr& value);

}  // namespace tandem::graph
