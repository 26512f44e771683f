/// What runs once when all micro-batches have, cut by processes.
#pragma once

#include <map>
#include <vector>

#include "graph/microbatches.h"

namespace tandem::graph {

/// Deals the calls `nodes` of a graph, in their order, to the processes of `stages`, and cuts what
/// this one does where it needs values of others. `sums` are the calls that read sums over
/// micro-batches, each with the process that has the sum; none where there is one process.
/// `results` are the values that all processes want. An update of variables that different
/// processes keep becomes several, which are put at the end of the graph.
OnceCut cut_once(Graph& graph, const std::vector<size_t>& nodes, const std::map<size_t, int>& sums,
                 const PipelineStages& stages, const ValueIds& results);

}  // namespace tandem::graph
