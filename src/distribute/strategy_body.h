/// What a strategy is made of: its replicas, the store of its variables, and the way into a run.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "execution/execution.h"
#include "function/function_body.h"
#include "tandem/strategy.h"
#include "tensor/store.h"

namespace tandem::distribute {

class Strategy::Body {
 public:
  /// The default strategy.
  Body() = default;
  /// The variables live on `replicas.central` alone, or, where that is null, beside each replica.
  Body(std::string name, graph::Replicas replicas);

  const std::string& name() const { return name_; }
  int replicas() const { return replicas_ ? replicas_->count() : 1; }
  bool is_default() const { return replicas_ == nullptr; }
  bool shares_memory() const;

  /// The device of each replica; none for the default strategy.
  const std::vector<devices::DevicePtr>& devices() const;
  const graph::Replicas& targets() const { return *replicas_; }
  /// Where its variables live; null for the default strategy.
  const std::shared_ptr<Store>& store() const { return store_; }

  /// Runs and calls take(execution, number of results) before the next run may begin. Not for the
  /// default strategy.
  template <class Take>
  void run(const Strategy& self, const FlatFunction& f, std::span<const PerReplica> arguments,
           Take take) const;

  /// A list of tensors that nobody else holds any more, or a new one.
  std::shared_ptr<Tensors> recycled_list() const;

 private:
  struct PreparedRun {
    graph::ConcreteFunctionPtr concrete;
    graph::FunctionBody::Held held;
    int64_t whole_rows = -1;  // The rows of every replica, where arguments are the same for all.
  };
  PreparedRun prepare(const Strategy& self, const FlatFunction& f,
                      std::span<const PerReplica> arguments) const;
  void bind(const PreparedRun& prepared, std::span<const PerReplica> arguments) const;
  int64_t common_rows(std::span<const PerReplica> arguments) const;
  int64_t rows_of(const graph::ConcreteFunction& concrete, std::span<const PerReplica> arguments,
                  int replica, int64_t whole_rows) const;
  void check_count(int values) const;
  void check_type(const op::TensorType& traced, const Tensor& value, int replica,
                  size_t index) const;

  std::string name_ = "the default strategy";
  graph::ReplicasPtr replicas_;
  std::shared_ptr<Store> store_;
  mutable std::mutex lists_mutex_;
  mutable std::vector<std::shared_ptr<Tensors>> lists_;
};

template <class Take>
void Strategy::Body::run(const Strategy& self, const FlatFunction& f,
                         std::span<const PerReplica> arguments, Take take) const {
  const PreparedRun prepared = prepare(self, f, arguments);
  graph::Execution& execution = *prepared.held.execution;
  bind(prepared, arguments);
  f.body()->run(*prepared.concrete, execution);
  take(execution, prepared.concrete->results.size());
}

}  // namespace tandem::distribute
