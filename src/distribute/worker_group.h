/// What a strategy keeps of the processes that its replicas run with: which programs they have
/// agreed on, which variables have the first one's values, and what is exchanged outside of
/// programs.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "function/function_body.h"
#include "graph/group_exchange.h"
#include "graph/variable_homes.h"
#include "op/group.h"

namespace tandem::distribute {

class WorkerGroup {
 public:
  WorkerGroup(std::shared_ptr<op::Group> group, std::shared_ptr<graph::Agreement> agreement)
      : group_(std::move(group)), agreement_(std::move(agreement)) {}

  op::Group& group() const { return *group_; }
  int rank() const { return group_->rank(); }
  int size() const { return group_->size(); }
  bool is_chief() const { return rank() == 0; }
  graph::Agreement& agreement() const { return *agreement_; }

  /// Held while a program runs: processes start their exchanges in one order.
  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }

  /// Is called before each run of a program. The first time all processes compare what they are
  /// about to run, and throw InvalidArgument with the first difference; then variables of it that
  /// no program had before get rank 0's values, and all draw the chief's random numbers.
  void enter(const graph::ConcreteFunctionPtr& concrete, int64_t global_rows);

  /// All take over the chief's seeds and what it has drawn so far. `name` is what errors call the
  /// meeting.
  void take_random_state(const char* name = "random state") const;
  /// What all processes have drawn since, each the same, comes before what their programs will draw
  /// together, as on one device.
  void count_common_draws() const;

  /// What each rank says.
  std::vector<int64_t> all_of(int64_t own, const char* name) const;
  /// The sum over all ranks of a tensor on the host.
  Tensor sum(const Tensor& own, const char* name) const;
  /// The tensors of all ranks, by rank; they may differ in their length along `axis`.
  Tensors gather(const Tensor& own, int axis, const char* name) const;

  /// Says what this process does, for errors of other ranks that wait for it: "data.next" of
  /// step 7.
  void note_progress(std::string_view phase, int64_t step) const {
    group_->note_progress(phase, step);
  }
  /// The same at the beginning of each run, unless somebody who calls `note_progress` runs.
  void note_run();
  void set_told_by_caller(bool is_told) { is_told_by_caller_ = is_told; }

  /// Gives up, so that other ranks end with this process's error. It is called while one is
  /// handled.
  void abort_with_current_error() const;

 private:
  void compare(const graph::ConcreteFunction& concrete, int64_t global_rows) const;
  void take_first_values(const graph::Graph& graph);
  std::vector<int64_t> count_late(const std::vector<graph::KeptVariable>& variables) const;
  void take_kept_values(const std::vector<graph::KeptVariable>& variables);
  void broadcast(const std::vector<StoreRange>& ranges, int root) const;
  void hand_on_part(const StoreRange& range, const graph::ProcessList& from,
                    const graph::ProcessList& to) const;
  void note_parts(const graph::Graph& graph) const;

  const std::shared_ptr<op::Group> group_;
  const std::shared_ptr<graph::Agreement> agreement_;
  std::mutex mutex_;
  bool is_told_by_caller_ = false;
  int64_t runs_ = 0;
  std::vector<graph::ConcreteFunctionPtr> entered_;
  /// A variable whose value was agreed on, and who has it.
  struct Taken {
    std::weak_ptr<StoreBlock> block{};
    graph::ProcessList processes{};
    graph::ProcessList alike{};  // See KeptVariable.
  };
  std::map<std::pair<const StoreBlock*, int64_t>, Taken> taken_;
};

/// What decides whether processes can run a program together, a line for each fact.
std::string fingerprint_of(const graph::ConcreteFunction& concrete, int64_t global_rows);

/// "rank 1 (..): '..' where rank 0 (..) has '..'", the first line in which texts differ; empty
/// where none does. `texts` are the ranks' fingerprints.
std::string first_difference(const std::vector<std::string>& texts, const op::Group& group);

}  // namespace tandem::distribute
