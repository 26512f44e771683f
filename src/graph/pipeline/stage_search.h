/// The search for the stages of a model: where to cut the list of its forward calls so that the
/// slowest chunk, with what it hands on, is as fast as can be, and fits into its stage's memory.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

namespace tandem::graph {

/// What a forward call means for the chunk that it is in.
struct CallLoad {
  double seconds = 0;        ///< Its time, with that of its gradients, on one thread.
  size_t kept_bytes = 0;     ///< Results that its gradients need, for each micro-batch in flight.
  size_t sum_bytes = 0;      ///< The sums of gradients of variables that it reads first.
  size_t passing_bytes = 0;  ///< The most that a call of it has as operands.
};

/// Where a chunk is.
struct ChunkPlace {
  int threads = 1;
  int in_flight = 1;  ///< Micro-batches whose activations are there at once.

  static constexpr size_t kAnyRoom = std::numeric_limits<size_t>::max();
  size_t room = kAnyRoom;  ///< The bytes that the chunk may take.
};

/// Where each chunk ends. `crossing[i]` are the seconds that it takes to hand on what is needed
/// behind the first i calls. Where no cut keeps within the chunks' rooms, one that exceeds them by
/// little.
std::vector<size_t> find_chunks(const std::vector<CallLoad>& calls,
                                const std::vector<double>& crossing,
                                const std::vector<ChunkPlace>& places);

}  // namespace tandem::graph
