#include "graph/passes/passes.h"

namespace tandem::graph {

void optimize(Graph& graph) {
  fold_constants(graph);
  simplify_algebra(graph);
  merge_equal_calls(graph);
  alias_reshapes(graph);
  elide_reads(graph);
  copy_shared_results(graph);
  shard_updates(graph);
  remove_dead_code(graph);
}

}  // namespace tandem::graph
