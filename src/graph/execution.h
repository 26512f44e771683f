/// A program bound to replicas: arenas, plans, addresses. One run at a time; a run
/// that has been made once for a number of rows allocates nothing on a CPU.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/baton.h"
#include "core/team.h"
#include "graph/program.h"
#include "graph/replicas.h"
#include "runtime/teams.h"
#include "tandem/function.h"

namespace tandem::graph {

/// The part of the global batch that a replica works on.
struct Shard {
  int64_t rows = 0;
  int64_t row_offset = 0;
};

class Execution final : public core::Job, public std::enable_shared_from_this<Execution> {
 public:
  Execution(std::shared_ptr<const Program> program, const ReplicasPtr& replicas);

  int replicas() const { return static_cast<int>(replicas_.size()); }
  const Program& program() const { return *program_; }

  /// A run is: lock, set_shard and bind for every replica, run, take the results, unlock.
  /// Throws DeadlineExceeded when another thread's run does not end.
  std::unique_lock<core::Baton> lock();

  void set_shard(int replica, const Shard& shard, int64_t global_rows);

  /// Argument `index` of a replica: `rows` rows of `tensor` from `first_row`, or all of it.
  void bind(int replica, int index, const Tensor& tensor);
  void bind_rows(int replica, int index, const Tensor& tensor, int64_t first_row, int64_t rows);

  void run();
  /// The same with random numbers that several executions share.
  void run(const op::RandomRun& random);

  /// Result `index` of the last run.
  Tensor result(int replica, int index) const;

  /// The program as planned for the last run, or for 128 rows before the first.
  std::string explain();

  /// What a run with so many rows on each replica allocates.
  MemoryPlan memory_plan(int64_t rows);

  /// Bytes of one replica's arena for the plans made so far.
  size_t arena_bytes(int replica) const;

  void play(core::Host& host) override;

 private:
  /// A plan's addresses for one replica.
  struct Instance {
    std::shared_ptr<const Plan> plan;
    std::vector<void*> slots;       // By value.
    uint64_t arena_generation = 0;  // Of the arena that `slots` point into.
    std::vector<std::vector<std::shared_ptr<TensorBody>>> pool;  // By result: bodies to use again.
    std::vector<std::shared_ptr<TensorBody>> results;            // Of the last run.
  };

  struct Replica {
    devices::DevicePtr device;
    int threads = 1;
    std::shared_ptr<Buffer> arena;
    size_t arena_bytes = 0;
    uint64_t arena_generation = 0;
    std::vector<std::unique_ptr<Instance>> instances;  // By number of rows.
    Instance* current = nullptr;
    op::StepScalars step;
    Tensors arguments;
    std::vector<const void*> argument_data;
    Tensors constants;  // By value: on this device, for good.
  };

  Instance& instance_for(Replica& replica, int64_t rows);
  std::shared_ptr<const Plan> plan_for(const Replica& replica, int64_t rows);
  void bind_arena(Replica& replica, Instance& instance) const;
  void bind_run(Replica& replica) const;
  void run_on_team();
  void run_on_queue(Replica& replica);
  void play_segment(core::Host& host, const core::Member& member, size_t begin, size_t end);
  op::Launch launch_of(const Replica& replica, size_t instruction) const;

  const std::shared_ptr<const Program> program_;
  std::vector<Replica> replicas_;
  int team_size_ = 0;
  std::shared_ptr<runtime::TeamSlot> team_;  // Null where the device has a queue of its own.
  std::vector<size_t> segment_ends_;  // Instructions before which all replicas meet, and the end.
  std::vector<void* const*> peers_;
  core::Baton baton_;
};

/// For tests: called before each instruction of a CPU run with the replica and the op's name. It
/// may throw or block. An empty function removes it.
void set_instruction_hook(std::function<void(int replica, const std::string& op)> hook);

}  // namespace tandem::graph
