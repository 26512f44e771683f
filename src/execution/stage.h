/// A piece of a traced function that runs as one program. Most functions are one stage; those with
/// device scopes inside, or with variables in several memory spaces, are several, run in order.
#pragma once

#include <memory>
#include <vector>

#include "execution/executions.h"

namespace tandem::graph {

struct Stage {
  ReplicasPtr replicas{};
  std::shared_ptr<const Program> program{};
  std::shared_ptr<Executions> executions{};
  std::vector<int> inputs{};  ///< For each argument of the program, which tensor of the call it is.
};

/// Runs the stages and returns the tensors of the call: `arguments`, then the results of each stage
/// in turn. The caller holds the lock of the first stage. `rows` is the size of the batch.
Tensors run_stages(const std::vector<Stage>& stages, std::span<const Tensor> arguments,
                   int64_t rows);

/// What all stages together allocate, copies between them included, in a call with `arguments`
/// tensors.
MemoryPlan memory_plan_of(const std::vector<Stage>& stages, size_t arguments, int64_t rows);

}  // namespace tandem::graph
