#include "graph/uses.h"

#include <algorithm>

namespace tandem::graph {

Uses::Uses(const Graph& graph) : graph_(graph), by_value_(graph.values.size()) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    for (ValueId input : node.inputs) add(input, i);
    if (node.op().writes_ranges) continue;
    for (ValueId range : node.ranges) add(range, i);
  }
  for (ValueId result : graph.results) add(result, Use::kResult);
}

bool Uses::is_used_by(ValueId value, size_t call) const {
  return std::ranges::any_of(of(value), [&](const Use& use) { return use.call == call; });
}

void Uses::add(ValueId value, size_t call) {
  by_value_[graph_.storage_of(value)].push_back({call, value});
}

}  // namespace tandem::graph
