/// What the segments of a pipeline need of each other, within a process and between processes.
#pragma once

#include <algorithm>
#include <vector>

#include "execution/pipeline/pipeline_run.h"

namespace tandem::graph {

/// Which segments and processes need what.
struct PipelineRun::Wiring {
  /// What of a segment's results another process needs.
  struct Sending {
    int to;
    std::vector<int> tensors;
  };
  std::vector<std::vector<size_t>> needs;  // By segment, those that compute its inputs.
  std::vector<size_t> first_result;        // By segment, its first result's place.
  // How many segments of this process and results need a tensor, by pipeline and tensor.
  std::vector<std::vector<int>> uses;
  std::vector<std::vector<std::vector<Sending>>> sendings;  // By pipeline and segment.

  size_t tensors() const { return uses[0].size(); }
  /// The segment that computes a tensor; past the last one for an argument.
  size_t producer_of(int tensor) const {
    const auto behind = std::ranges::upper_bound(first_result, static_cast<size_t>(tensor));
    return behind == first_result.begin() ? first_result.size()
                                          : static_cast<size_t>(behind - first_result.begin()) - 1;
  }

  const Sending* sending(size_t pipeline, size_t segment, int to) const {
    const auto& all = sendings[pipeline][segment];
    const auto found = std::ranges::find(all, to, &Sending::to);
    return found == all.end() ? nullptr : &*found;
  }
};

}  // namespace tandem::graph
