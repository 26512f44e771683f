// Removes the calls whose outputs nobody uses, from the last to the first, so that what was
// computed for them alone goes too. Calls that write variables stay, and so do collectives, which
// all replicas must make alike.
//
//   before   %1 = exp(x)   %2 = sqrt(%1)   %3 = relu(x)   results: %3
//   after    %3 = relu(x)                                 results: %3
#include <algorithm>

#include "graph/passes/passes.h"

namespace tandem::graph {

void remove_dead_code(Graph& graph) {
  ValueMap<bool> live(graph.values.size(), false);
  const auto mark = [&](ValueId value) { live[graph.storage_of(value)] = true; };
  for (ValueId result : graph.results) mark(result);
  std::vector<Node> kept;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    Node& node = graph.nodes[i];
    const bool wanted =
        node.op().has_effect() || node.op().is_collective ||
        std::ranges::any_of(node.outputs, [&](ValueId output) { return live[output]; });
    if (!wanted) continue;
    for (ValueId input : node.inputs) mark(input);
    kept.push_back(std::move(node));
  }
  graph.nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
}

}  // namespace tandem::graph
