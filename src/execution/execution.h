/// A program bound to replicas: arenas, plans, addresses. One run at a time (see executions.h); a
/// run that has been made once for a number of rows allocates nothing on a CPU.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/timed_mutex.h"
#include "execution/bound_replica.h"
#include "execution/cross_device_run.h"
#include "execution/replicas.h"
#include "execution/run_arguments.h"
#include "execution/team_run.h"
#include "op/instruction_hook.h"
#include "runtime/shared_team.h"
#include "tandem/function.h"

namespace tandem::graph {

/// Plans that executions of one program share.
class Plans {
 public:
  /// Null where there is none for these rows and the replica's kind of device.
  std::shared_ptr<const Plan> find(const BoundReplica& replica, int64_t rows) const;
  void add(const BoundReplica& replica, std::shared_ptr<const Plan> plan);

 private:
  struct Entry {
    const devices::MemorySpace* space;
    int threads;
    std::shared_ptr<const Plan> plan;
  };
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
};

class Execution final : public std::enable_shared_from_this<Execution> {
 public:
  Execution(std::shared_ptr<const Program> program, const ReplicasPtr& replicas,
            std::shared_ptr<Plans> plans);

  int replicas() const { return program_->replicas(); }
  const Program& program() const { return *program_; }

  /// Runs. The caller holds the lock until it has taken the results.
  void run(const RunArguments& arguments);

  /// Result `index` of the last run.
  Tensor result(int replica, size_t index) const {
    return Tensor(replicas_[static_cast<size_t>(replica)].current->results[index]);
  }

  /// Where a replica had an argument in the last run.
  const void* argument(int replica, size_t index) const {
    return replicas_[static_cast<size_t>(replica)].argument_data[index];
  }

  /// Throws DeadlineExceeded when another thread's run of `function` does not end.
  std::unique_lock<core::TimedMutex> lock(const std::string& function);
  std::unique_lock<core::TimedMutex> try_lock() { return {mutex_, std::try_to_lock}; }

  /// Another execution of the program may run at the same time.
  bool runs_beside_others() const {
    return team_ && !program_->writes_variables() && program_->exchanges() == 0;
  }

  /// A thread may be stuck in it: another one takes its place.
  void give_up() {
    given_up_ = true;
    if (cross_device_) cross_device_->abandon();
  }
  bool is_given_up() const { return given_up_; }

  /// To be called where another execution of the program was given up while it was running.
  void repair_first() {
    if (cross_device_) cross_device_->repair_first();
  }

  /// The program as planned for the last run, or for 128 rows before the first.
  std::string explain();

  /// How values are summed over memory spaces and why, a line for each sum; empty where memory is
  /// shared.
  std::string reduction() const { return cross_device_ ? cross_device_->plan().reduction : ""; }

  /// What a run with so many rows on each replica allocates.
  MemoryPlan memory_plan(int64_t rows);

  /// Bytes of one replica's arena for the plans made so far.
  size_t arena_bytes(int replica) const;

 private:
  Instance& instance_for(BoundReplica& replica, int64_t rows);
  std::shared_ptr<const Plan> plan_for(const BoundReplica& replica, int64_t rows) const;
  runtime::JobTraits traits() const;
  void bind_arena(BoundReplica& replica, Instance& instance) const;
  void bind_arguments(BoundReplica& replica, const RunArguments& arguments);
  void bind_run(BoundReplica& replica) const;
  void bind_central();
  void run_bound(const op::RandomRun& random);
  template <class F>
  void call_named(int replica, F f) const;
  void run_on_queue(BoundReplica& replica);
  void wait_for_earlier_runs();

  const std::shared_ptr<const Program> program_;
  const std::shared_ptr<Plans> plans_;
  std::vector<StoreBlock*> written_;           // Blocks of variables that the program writes.
  std::vector<BoundReplica> replicas_;         // And the central device, if that is apart.
  std::shared_ptr<runtime::SharedTeam> team_;  // Null where the device has a queue of its own.
  std::vector<Share> shares_;  // Instructions' shares, where processes update parts of variables.
  std::unique_ptr<TeamRun> team_run_;
  std::unique_ptr<CrossDeviceRun> cross_device_;  // Where replicas do not share memory or a team.
  std::array<std::vector<devices::Event>, 2> in_flight_;  // The ends of the last runs on queues.
  std::vector<devices::Event> awaited_;                   // Those that are being waited for.
  size_t turn_ = 0;
  core::TimedMutex mutex_;
  std::atomic<bool> given_up_ = false;
};

}  // namespace tandem::graph
