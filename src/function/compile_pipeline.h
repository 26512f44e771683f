/// From the graph of a step over micro-batches to a pipeline that runs it.
#pragma once

#include <memory>

#include "execution/pipeline/pipeline_run.h"
#include "execution/replicas.h"
#include "graph/graph.h"

namespace tandem::graph {

/// Cuts and compiles. Where nobody has named the stages they are searched for, by what calls cost
/// and take with so many rows in each micro-batch, and again where the memory plan of what was
/// compiled exceeds a stage's limit. Throws as cut_microbatches().
std::unique_ptr<PipelineRun> compile_pipeline(Graph graph, const Replicas& replicas, int64_t rows);

}  // namespace tandem::graph
