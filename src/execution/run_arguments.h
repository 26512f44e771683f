/// What a run of a program is given. These are views: the tensors are the caller's, and live until
/// the run has been issued.
#pragma once

#include <algorithm>
#include <span>

#include "core/inline_vector.h"
#include "op/kernel.h"
#include "tandem/tensor.h"

namespace tandem::graph {

/// The part of the global batch that a replica works on. Rows are counted over all processes.
struct BatchShard {
  int64_t rows = 0;
  int64_t row_offset = 0;
};

/// Replica `replica`'s share of `rows`: sizes differ by at most one, larger ones first.
inline BatchShard shard_of(int64_t rows, int replica, int replicas) {
  const int64_t least = rows / replicas;
  const int64_t larger = rows % replicas;
  return {.rows = least + (replica < larger ? 1 : 0),
          .row_offset = replica * least + std::min<int64_t>(replica, larger)};
}

/// One argument, as all replicas have it.
struct Argument {
  enum class Kind {
    same,  ///< One tensor for all replicas.
    rows,  ///< One tensor, of which each replica gets the rows of its shard.
    own,   ///< A tensor for each replica.
  };
  const Tensor* tensors = nullptr;
  Kind kind = Kind::same;
  int64_t begin_row = 0;  ///< Which row of the global batch a tensor of Kind::rows begins with.

  const Tensor& of(int replica) const { return tensors[kind == Kind::own ? replica : 0]; }
  bool differs() const { return kind != Kind::same; }
};

/// Lists of a usual length, which allocate nothing.
using ArgumentList = core::InlineVector<Argument, 64>;
using Shards = core::InlineVector<BatchShard, 32>;

struct RunArguments {
  std::span<const Argument> tensors{};
  std::span<const BatchShard> shards{};  ///< By replica of this process.
  int64_t global_rows = -1;              ///< The rows of all processes; negative: of the shards.
  /// The random numbers of the run, where it shares them with other runs; else it draws its own.
  const op::RandomRun* random = nullptr;
  /// Which micro-batch of how many it is, where the program is run once for each of them. Its
  /// replicas then are those that have the micro-batch's rows.
  int microbatch = 0;
  int microbatches = 0;  ///< 0: the program's replicas run at the same time.
};

}  // namespace tandem::graph
