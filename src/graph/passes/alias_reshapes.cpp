// A reshape, or another op that only gives its input a new shape or name (OpDef::is_view), costs
// nothing in a program: its output becomes an alias, a value that lies in the input's memory.
//
//   before   %1 = matmul(x, w)    %2 = reshape(%1)       %3 = relu(%2)
//   after    %1 = matmul(x, w)    %2 is an alias of %1   %3 = relu(%2)
#include <algorithm>

#include "graph/passes/passes.h"

namespace tandem::graph {

void alias_reshapes(Graph& graph) {
  std::erase_if(graph.nodes, [&](const Node& node) {
    if (!node.op().is_view) return false;
    Value& output = graph.at(node.outputs[0]);
    output.source = Value::Source::alias;
    output.alias_of = node.inputs[0];
    return true;
  });
}

}  // namespace tandem::graph
