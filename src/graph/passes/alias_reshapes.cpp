#include <algorithm>

#include "graph/passes/passes.h"

namespace tandem::graph {

void alias_reshapes(Graph& graph) {
  std::erase_if(graph.nodes, [&](const Node& node) {
    if (!node.op().is_view) return false;
    Value& output = graph.values[static_cast<size_t>(node.outputs[0])];
    output.source = Value::Source::alias;
    output.alias_of = node.inputs[0];
    return true;
  });
}

}  // namespace tandem::graph
