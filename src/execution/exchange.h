/// What moves between memory spaces while replicas wait for each other: copies, and sums over the
/// replicas. Each runs on one device's queue, or on the caller's thread where that is a CPU, and
/// reaches the memory of all: nobody else may be at work.
#pragma once

#include <memory>
#include <vector>

#include "execution/spread_plan.h"

namespace tandem::graph {

/// One site's part of a sum, prepared. Kernels of the site's device add; what lies elsewhere comes
/// by way of a staging area, a block at a time.
class PartialSum {
 public:
  PartialSum(const Program& program, const Sum& sum, const Sum::Part& part, const Site& site,
             int replicas);

  /// Of the memory of the site that run() needs.
  size_t staging_bytes() const { return 2 * block_bytes_; }

  /// `replicas` are all ranks, bound.
  void run(const std::vector<BoundReplica>& replicas, void* staging) const;

 private:
  /// A run of elements of one operand that fits the staging area.
  struct Block {
    size_t operand;
    int64_t begin;
    int64_t count;
    op::ExecutablePtr add;
  };

  void sum_block(const Block& block, const std::vector<BoundReplica>& replicas,
                 char* staging) const;

  const devices::DevicePtr device_;
  const std::vector<int> inputs_;
  const std::vector<int> outputs_;
  const std::vector<int> targets_;
  const int replicas_;
  std::vector<size_t> element_bytes_;  // By operand.
  std::vector<Block> blocks_;
  size_t block_bytes_ = 0;
};

/// The device whose queue makes a move: where the values are.
const devices::DevicePtr& source_of(const Move& move, const Graph& graph,
                                    const std::vector<BoundReplica>& replicas);

void make_move(const Move& move, const Graph& graph, const std::vector<BoundReplica>& replicas);

}  // namespace tandem::graph
