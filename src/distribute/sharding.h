/// How a batch of rows is dealt to replicas.
#pragma once

#include "execution/execution.h"
#include "tandem/per_replica.h"

namespace tandem::distribute {

/// Replica `replica`'s share of `rows`: sizes differ by at most one, larger ones first.
graph::BatchShard shard_of(int64_t rows, int replica, int replicas);

}  // namespace tandem::distribute
