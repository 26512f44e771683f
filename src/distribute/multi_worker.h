/// How a MultiWorkerMirroredStrategy comes to its group of processes.
#pragma once

#include <memory>

#include "op/group.h"
#include "tandem/distribute/strategy.h"

namespace tandem::distribute {

/// The processes that the options' resolver or else the environment names, met; null where it names
/// none.
std::shared_ptr<op::Group> join_group(const MultiWorkerOptions& options);

/// Throws FailedPrecondition where this process has drawn random numbers before it made a strategy
/// of this name, without a seed: others have drawn others.
void check_not_drawn(const char* strategy);

/// A strategy over the processes of `group`: what the constructor makes of join_group(). Null is
/// this process alone. All processes call it at the same time: they tell each other how many
/// replicas they have, and take over the random state of the chief. Throws FailedPrecondition where
/// this process has drawn random numbers before, without a seed: others have drawn others.
MultiWorkerMirroredStrategy multi_worker_strategy(std::shared_ptr<op::Group> group,
                                                  const MultiWorkerOptions& options = {});

}  // namespace tandem::distribute
