#include <algorithm>

#include "graph/passes/passes.h"
#include "op/registry.h"
#include "op/update.h"

namespace tandem::graph {
namespace {

bool is_result(const Graph& graph, int value) {
  return std::ranges::any_of(graph.results,
                             [&](int result) { return graph.storage_of(result) == value; });
}

/// True for an update whose gradients are the outputs of `reduce`, so that both are cut into the
/// same chunks.
bool is_update_of(const Node& user, const Node& reduce) {
  return user.op().is_update &&
         std::ranges::equal(reduce.outputs,
                            op::UpdateLayout(user.signature).gradients(user.inputs));
}

bool only_updates_use(const Graph& graph, const Node& reduce) {
  for (int output : reduce.outputs) {
    if (is_result(graph, output)) return false;
    for (const Node& node : graph.nodes) {
      const bool uses = std::ranges::any_of(
          node.inputs, [&](int input) { return graph.storage_of(input) == output; });
      if (uses && !is_update_of(node, reduce)) return false;
    }
  }
  return true;
}

}  // namespace

void shard_updates(Graph& graph) {
  for (Node& node : graph.nodes) {
    if (node.op().name == "all_reduce" && only_updates_use(graph, node)) {
      node.signature.op = &op::find_op("reduce_scatter");
    }
  }
}

}  // namespace tandem::graph
