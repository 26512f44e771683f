/// Which strategy a thread is in: within its scope, within a run that is being traced, or neither.
#pragma once

#include <optional>

#include "tandem/distribute/strategy.h"
#include "tensor/store.h"

namespace tandem::distribute {

/// While it lives, a run of `strategy` may be traced on this thread: variables that the function
/// creates are the strategy's, and code in it has a replica context. Throws FailedPrecondition
/// inside another strategy.
class RunScope {
 public:
  explicit RunScope(const Strategy& strategy);
  ~RunScope();
  RunScope(const RunScope&) = delete;
  RunScope& operator=(const RunScope&) = delete;

 private:
  const Strategy* const former_;
  std::optional<StoreScope> store_;
};

/// True inside a merge_call: values that are being traced stand for those of all replicas.
bool is_merging();

/// Throws FailedPrecondition naming `what` inside run, where a replica's code cannot call it.
void check_cross_replica(const char* what);

/// Values of the replicas of the trace. Differentiable.
Tensor all_reduced(ReduceOp op, const Tensor& value);
Tensor all_gathered(const Tensor& value, int axis);

}  // namespace tandem::distribute
