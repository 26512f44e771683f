/// A piece of a traced function that runs as one program. Most functions are one segment; those
/// with device scopes inside, or with variables in several memory spaces, are several, run in
/// order.
#pragma once

#include <memory>
#include <vector>

#include "execution/executions.h"

namespace tandem::graph {

struct CompiledSegment {
  ReplicasPtr replicas{};
  std::shared_ptr<const Program> program{};
  std::shared_ptr<Executions> executions{};
  std::vector<int> inputs{};  ///< For each argument of the program, which tensor of the call it is.
};

/// Runs the segments of `function` and returns the tensors of the call: `arguments`, then the
/// results of each segment in turn. `rows` is the size of the batch.
Tensors run_segments(const std::string& function, const std::vector<CompiledSegment>& segments,
                     std::span<const Argument> arguments, int64_t rows);

/// What is copied between the devices of segments in a call with so many rows, and what that means;
/// empty where nothing is. `arguments` as in memory_plan_of().
std::string explain_edges(const std::vector<CompiledSegment>& segments, size_t arguments,
                          int64_t rows);

/// What all segments together allocate, copies between them included, in a call with `arguments`
/// tensors.
MemoryPlan memory_plan_of(const std::vector<CompiledSegment>& segments, size_t arguments,
                          int64_t rows);

}  // namespace tandem::graph
