/// The executions of one program. Calls from several threads take turns on the first, or run side
/// by side, each on one of its own, where the program writes no variables.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "execution/execution.h"

namespace tandem::graph {

/// The results of a run. As long as it lives, no other run overwrites them.
class Results {
 public:
  Results() = default;
  Results(std::shared_ptr<Execution> execution, std::unique_lock<core::TimedMutex> lock)
      : execution_(std::move(execution)), lock_(std::move(lock)) {}
  /// Those of micro-batches, by micro-batch.
  explicit Results(std::vector<Tensors> by_microbatch) : by_microbatch_(std::move(by_microbatch)) {}

  size_t count() const {
    return execution_ ? execution_->program().graph().results.size() : by_microbatch_[0].size();
  }
  Tensor at(int replica, size_t index) const {
    return execution_ ? execution_->result(replica, index)
                      : by_microbatch_[static_cast<size_t>(replica)][index];
  }

  Execution& execution() const { return *execution_; }
  bool is_empty() const { return execution_ == nullptr && by_microbatch_.empty(); }

 private:
  std::shared_ptr<Execution> execution_;
  std::unique_lock<core::TimedMutex> lock_;
  std::vector<Tensors> by_microbatch_;
};

class Executions {
 public:
  enum class Calls { side_by_side, in_turn };

  Executions(std::shared_ptr<const Program> program, ReplicasPtr replicas, Calls calls);

  /// Runs the program on an execution that no other thread uses. Throws DeadlineExceeded when a
  /// call of `function` from another thread does not end, or the run does not: the execution that a
  /// stuck thread may still be in is then forgotten.
  Results run(const std::string& function, const RunArguments& arguments);

  /// As Execution's own, of the first.
  std::string explain(const std::string& function);
  MemoryPlan memory_plan(int64_t rows) const { return first()->memory_plan(rows); }

 private:
  Results take(const std::string& function);
  Results take_free();
  Results take_first(const std::string& function);
  std::shared_ptr<Execution> first() const;
  std::shared_ptr<Execution> create() const;
  void give_up(const Execution& execution);

  const std::shared_ptr<const Program> program_;
  const ReplicasPtr replicas_;
  const std::shared_ptr<Plans> plans_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Execution>> all_;
  const size_t most_;  // The number of executions that there may be.
};

}  // namespace tandem::graph
