/// Training with parameter servers: variables lie on servers, and workers read them, compute on
/// batches of their own and send gradients, with or without waiting for each other. How far they
/// may drift apart is one number:
///
///   staleness = 0           all workers share each batch and wait for each other: the result is
///                           that of MirroredStrategy
///   staleness = k           nobody begins a batch who has done more than k batches more than the
///                           slowest
///   staleness = unbounded   nobody waits; gradients are of variables that others have changed
///                           meanwhile
///
///   distribute::ParameterServerStrategy strategy({.staleness = 4, .damping = true});
///   const auto scope = strategy.scope();
///   keras::Sequential model({..});
///   model.compile({..});
///   model.fit(x, y);
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "tandem/distributed_dataset.h"
#include "tandem/strategy.h"

namespace tandem::distribute {

/// The staleness of workers that never wait for each other.
inline constexpr int64_t unbounded = -1;

/// Into how many shards, runs of rows, a variable is cut. Shards are dealt to the servers in turn.
using Partitioner = std::function<int64_t(const Shape& shape, DType dtype)>;

namespace partitioners {

/// So many shards of each variable; InvalidArgument below 1.
TANDEM_API Partitioner fixed_shards(int64_t shards);

/// As many shards, `max_shards` at the most, as each have at least `min_shard_bytes`.
TANDEM_API Partitioner min_size(int64_t min_shard_bytes = int64_t{256} << 10,
                                int64_t max_shards = 1);

/// As few shards, but `max_shards` at the most where that is given, as each have at most
/// `max_shard_bytes`.
TANDEM_API Partitioner max_size(int64_t max_shard_bytes, std::optional<int64_t> max_shards = {});

}  // namespace partitioners

}  // namespace tandem::distribute
