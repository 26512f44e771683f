/// What the code inside strategy.run can ask and do about its replica.
#pragma once

#include <optional>

#include "tandem/distribute/strategy.h"

namespace tandem::distribute {

/// What a function sees of its replica while run traces it: once, for all of them.
class TANDEM_API ReplicaContext {
 public:
  Strategy strategy() const;
  int num_replicas_in_sync() const;
  /// An int32 scalar, of another value on each replica.
  Tensor replica_id_in_sync_group() const;

  /// The sum or mean over the replicas, on each of them. Differentiable.
  Tensor all_reduce(ReduceOp op, const Tensor& value) const;
  /// Values of all replicas one after another along `axis`; all of one shape. Differentiable.
  /// Throws InvalidArgument for the rows of a batch, whose number differs between replicas.
  Tensor all_gather(const Tensor& value, int axis) const;

  /// `f(strategy, values..)`, in which the strategy's reduce and gather see the values of all
  /// replicas.
  template <class F, class... Values>
  auto merge_call(const F& f, const Values&... values) const {
    const MergeScope merging;
    return f(strategy(), PerReplica(values)...);
  }

 private:
  struct TANDEM_API MergeScope {
    MergeScope();
    ~MergeScope();
    MergeScope(const MergeScope&) = delete;
    MergeScope& operator=(const MergeScope&) = delete;
  };
};

/// Nothing inside a scope or a merge_call, where no replica is running.
TANDEM_API std::optional<ReplicaContext> get_replica_context();
TANDEM_API bool in_cross_replica_context();

}  // namespace tandem::distribute
