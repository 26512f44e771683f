/// What a strategy is made of: its replicas, the store of its variables, and the way into a run.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

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

  /// Runs `f` on the replicas. Not for the default strategy.
  graph::Results run(const Strategy& self, const FlatFunction& f,
                     std::span<const PerReplica> arguments) const;

  /// A list of tensors that nobody else holds any more, or a new one.
  std::shared_ptr<Tensors> recycled_list() const;

 private:
  graph::ArgumentList listed(std::span<const PerReplica> arguments) const;
  graph::Shards shards_of(std::span<const graph::Argument> arguments) const;
  void check_types(const graph::ConcreteFunction& concrete,
                   std::span<const graph::Argument> arguments) const;

  std::string name_ = "the default strategy";
  graph::ReplicasPtr replicas_;
  std::shared_ptr<Store> store_;
  mutable std::mutex lists_mutex_;
  mutable std::vector<std::shared_ptr<Tensors>> lists_;
};

}  // namespace tandem::distribute
