/// What a strategy is made of: its replicas, the store of its variables, and the way into a run.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "distribute/worker_group.h"
#include "function/function_body.h"
#include "tandem/distribute/strategy.h"
#include "tensor/store.h"

namespace tandem::distribute {

class LayoutMap;
class ServerTraining;

class Strategy::Body {
 public:
  /// The default strategy.
  Body();
  ~Body();
  /// The variables live on `replicas.central` alone, or, where that is null, beside each replica.
  Body(std::string name, graph::Replicas replicas);
  /// The same, where the steps of one replica sum over `summing` what others compute, and nothing
  /// else is done together.
  Body(std::string name, graph::Replicas replicas, std::shared_ptr<op::Group> summing);

  const std::string& name() const { return name_; }
  /// The replicas of all processes, and of this one.
  int replicas() const { return replicas_ ? replicas_->count() : 1; }
  int local_replicas() const { return replicas_ ? replicas_->local() : 1; }
  ReplicaSpan span() const {
    return {.first = replicas_ ? replicas_->first : 0,
            .count = local_replicas(),
            .all = replicas(),
            .model = replicas_ ? replicas_->model : 1};
  }
  /// The processes that its replicas run with; null: this one alone.
  WorkerGroup* workers() const { return workers_.get(); }
  /// The same where other processes have some of the replicas, with rows of their own. The stages
  /// of a pipeline have the same ones.
  WorkerGroup* other_replicas() const {
    return replicas() > local_replicas() ? workers_.get() : nullptr;
  }
  /// The parameter servers that its variables lie on; null: none.
  ServerTraining* servers() const { return servers_.get(); }
  void set_servers(std::shared_ptr<ServerTraining> servers) { servers_ = std::move(servers); }
  /// How weights are cut over the replicas that have the same rows; null: not at all.
  const LayoutMap* layouts() const { return layouts_.get(); }
  void set_layouts(std::shared_ptr<const LayoutMap> layouts) { layouts_ = std::move(layouts); }
  bool is_default() const { return replicas_ == nullptr; }

  /// The replicas of batches of which each pipeline has its part in so many micro-batches.
  using ReplicasOf = std::function<graph::Replicas(int microbatches)>;
  /// From now on runs choose how many micro-batches there are, all processes the same number, and
  /// take turns.
  void set_automatic_microbatches(ReplicasOf replicas_of);
  bool has_automatic_microbatches() const { return automatic_ != nullptr; }

  bool shares_memory() const;

  /// The device of each replica of this process; none for the default strategy.
  const std::vector<devices::DevicePtr>& devices() const;
  const graph::Replicas& targets() const { return *replicas_; }
  /// Where its variables live; null for the default strategy.
  const std::shared_ptr<Store>& store() const { return store_; }
  /// The stores of stages but the first, where they have any.
  const std::vector<std::shared_ptr<Store>>& stage_stores() const { return stage_stores_; }
  /// Variables that are created from now on are cut as `rule` says.
  void set_sharding(const Store::ShardingRule& rule);

  /// Runs `f` on the replicas. Not for the default strategy. `random` are the run's random numbers,
  /// where it shares them with other runs.
  graph::Results run(const Strategy& self, const FlatFunction& f,
                     std::span<const PerReplica> arguments,
                     const op::RandomRun* random = nullptr) const;

  /// Compiles `f` for such arguments, as run() does, and runs nothing.
  void compile(const Strategy& self, const FlatFunction& f,
               std::span<const PerReplica> arguments) const;

  /// What runs of the functions that it has compiled tell along the axes of a mesh, and the memory
  /// that they take, for people.
  std::string explain_runs() const;

  /// A list of tensors that nobody else holds any more, or a new one.
  std::shared_ptr<Tensors> recycled_list() const;

 private:
  struct Automatic;
  void settle_microbatches(const Strategy& self, const FlatFunction& f,
                           std::span<const PerReplica> arguments) const;
  int choose_microbatches(int count) const;
  int64_t least_of_all(int64_t own) const;
  graph::Results run_once_chosen(const Strategy& self, const FlatFunction& f,
                                 std::span<const PerReplica> arguments,
                                 const op::RandomRun* random) const;
  void note_stage_stores();
  graph::ArgumentList listed(std::span<const PerReplica> arguments) const;
  struct BatchRows;
  BatchRows rows_of(std::span<const PerReplica> arguments) const;
  void note_run(const std::shared_ptr<graph::FunctionBody>& function,
                const graph::ConcreteFunctionPtr& concrete, int64_t rows) const;
  int64_t own_rows_of(std::span<const PerReplica> arguments, int replica) const;
  void check_same_rows(int replica, int64_t rows, int64_t neighbours) const;
  BatchPlace place_of(std::span<const PerReplica> arguments, int64_t own_rows) const;
  graph::ConcreteFunctionPtr find_or_compile(const Strategy& self, const FlatFunction& f,
                                             std::span<const graph::Argument> list,
                                             const BatchRows& batch) const;
  void check_types(const graph::ConcreteFunction& concrete,
                   std::span<const graph::Argument> arguments) const;

  std::string name_ = "the default strategy";
  mutable graph::ReplicasPtr replicas_;
  std::unique_ptr<Automatic> automatic_;  // Where micro-batches are.
  std::shared_ptr<Store> store_;
  std::vector<std::shared_ptr<Store>> stage_stores_;
  std::unique_ptr<WorkerGroup> workers_;
  std::shared_ptr<ServerTraining> servers_;
  std::shared_ptr<const LayoutMap> layouts_;
  /// A function's program, and the rows that each replica had last.
  struct Ran {
    std::weak_ptr<graph::FunctionBody> function;
    std::weak_ptr<const graph::ConcreteFunction> concrete;
    int64_t rows = 0;
  };
  mutable std::mutex lists_mutex_;
  mutable std::vector<std::shared_ptr<Tensors>> lists_;
  mutable std::vector<Ran> ran_;
};

}  // namespace tandem::distribute
