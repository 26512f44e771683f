/// One replica of a program: its device, its memory, and the addresses of its values.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "execution/captured_stretch.h"
#include "graph/program.h"

namespace tandem::graph {

/// A plan's addresses for one replica.
struct Instance {
  std::shared_ptr<const Plan> plan;
  ValueMap<void*> addresses;  ///< The address of each value.
  /// The memory of variables on a device with a queue: stores may give theirs back.
  std::vector<std::shared_ptr<Buffer>> variables;
  uint64_t arena_generation = 0;  ///< The generation of the arena that `addresses` point into.
  /// The bodies that each result can use again.
  std::vector<std::vector<std::shared_ptr<TensorBody>>> pool;
  std::vector<std::shared_ptr<TensorBody>> results;  ///< The results of the last run.
  /// What is captured on a device with a queue, by the first instruction of each stretch.
  std::map<size_t, CapturedStretch> captured;
};

/// Memory on the device for an argument that comes from elsewhere.
struct Landing {
  /// For an argument that comes on the queue that computes.
  std::shared_ptr<Buffer> in_turn;
  /// For one that comes on the input queue. Runs use the two by turns, so that one run's argument
  /// is copied while the run before it still computes.
  std::array<std::shared_ptr<Buffer>, 2> ahead;
  size_t turn = 0;
};

/// The host's side of StepScalars, which lies still until the device has fetched it: a few runs'.
struct StagedSteps {
  struct Slot {
    std::shared_ptr<char[]> memory{};
    devices::Event fetched{};
  };
  std::array<Slot, 4> slots;
  size_t turn = 0;
};

struct BoundReplica {
  devices::DevicePtr device;
  int index = 0;         ///< Its place among the replicas of this process.
  std::string name;      ///< "replica 1 on /device:CPU:1", for errors.
  int threads = 1;       ///< Its own,
  int team_threads = 1;  ///< and those of all replicas that share its team.
  std::shared_ptr<Buffer> arena;
  size_t arena_bytes = 0;
  uint64_t arena_generation = 0;
  std::vector<std::unique_ptr<Instance>> instances;  ///< One for each number of rows.
  Instance* current = nullptr;
  op::StepScalars step;
  Tensors arguments;
  std::vector<const void*> argument_data;
  ValueMap<Tensor> constants;  ///< The constants among the values, on this device, for good.

  // Where the device has a queue.
  std::shared_ptr<Buffer> device_step;  ///< The StepScalars, written once a run.
  StagedSteps staged_steps;
  std::vector<Landing> landings;               ///< Where each argument is copied to.
  std::vector<devices::Event> argument_ready;  ///< When each argument is there.
  devices::Event landed;                       ///< When those of the input queue are.
  devices::Event last_run_begin;               ///< What the queue had to do before the last run,
  devices::Event this_run_begin;               ///< and before the one that is being issued.

  void* address_of(ValueId value) const { return current->addresses[value]; }
};

/// An instruction's launch, whole and without peers, but for what a queue needs.
inline op::Launch launch_of(const Program& program, const BoundReplica& replica,
                            size_t instruction) {
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

/// Which part of an instruction that writes variables the replicas of one memory space do: `rank`
/// of `of` equal ones. None where `of` is 0.
struct Share {
  int rank = 0;
  int of = 1;
};

}  // namespace tandem::graph
