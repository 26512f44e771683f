/// Puts a program's instructions on the queue of a replica's device.
#pragma once

#include "execution/bound_replica.h"

namespace tandem::graph {

/// To be called once a run, before anything of it is put on a queue.
void begin_run(BoundReplica& replica);

/// Brings the step's scalars to the device. To be called once a run, before the first instruction.
/// What is known to be wrong with the arguments, or with the constants, is wrong with the run.
void issue_step(BoundReplica& replica);

/// Copies constants anew that were copied behind a fault which had nothing to do with them.
void refresh_constants(const Program& program, BoundReplica& replica);

/// Issues one instruction, or the share of it. Errors of its commands begin with `name` if it is
/// not empty.
void issue_instruction(const Program& program, const BoundReplica& replica, size_t instruction,
                       const std::string& name, const Share& share = {});

/// Instructions that follow each other.
struct InstructionRange {
  size_t begin = 0;
  size_t end = 0;
};

/// True where the commands of these instructions are kept and replayed in later runs.
bool may_capture(const Program& program, const BoundReplica& replica,
                 const InstructionRange& range);
StretchKey stretch_key(const BoundReplica& replica);

/// Issues a stretch of instructions: what `work` issues, or what was captured of it in a run with
/// the same addresses. It is the only rank of its device.
template <class Work>
void issue_stretch(const Program& program, BoundReplica& replica, const InstructionRange& range,
                   const Work& work) {
  if (!may_capture(program, replica, range)) return work();
  replica.current->captured[range.begin].issue(replica.device->queue(), stretch_key(replica), work);
}

/// To be called once a run, behind its last instruction: if it goes wrong, or is behind what did,
/// it does not count, and its random numbers are drawn again.
void undo_on_fault(const Program& program, const BoundReplica& replica);

/// Which of a value's bytes.
struct ByteRange {
  size_t begin = 0;
  size_t count = 0;
};

/// Copies part of an argument from another memory space to a place that it keeps here. What comes
/// from the host comes on the device's input queue, while the run before this one computes.
void land(BoundReplica& replica, size_t argument, const BodyPtr& value, const ByteRange& part);

}  // namespace tandem::graph
