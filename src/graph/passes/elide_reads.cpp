// A program uses a variable where it lies, without a copy: the value that was read becomes an alias
// of the variable's memory.
//
//   before   %1 = read_variable(w)   %2 = matmul(x, %1)   update(w)
//   after    %1 is an alias of w     %2 = matmul(x, %1)   update(w)
//
// The read stays, as a copy, where the variable is written before the last use of what was read:
//
//            %1 = read_variable(w)   assign(w)   %2 = add(%1, x)
#include <algorithm>

#include "graph/passes/passes.h"
#include "graph/uses.h"

namespace tandem::graph {
namespace {

bool writes(const Graph& graph, const Node& node, ValueId range) {
  return node.op().writes_ranges && std::ranges::any_of(node.ranges, [&](ValueId written) {
           return overlap(graph.at(written).range, graph.at(range).range);
         });
}

/// True when no call between the read and the last use of its value writes the variable.
bool can_elide(const Graph& graph, const Uses& uses, size_t read) {
  const Node& node = graph.nodes[read];
  for (size_t i = read + 1; i < graph.nodes.size(); ++i) {
    if (writes(graph, graph.nodes[i], node.ranges[0]))
      return !uses.is_used_from(node.outputs[0], i);
  }
  return true;
}

}  // namespace

void elide_reads(Graph& graph) {
  const Uses uses(graph);
  std::vector<Node> kept;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    if (node.op().name != "read_variable" || !can_elide(graph, uses, i)) {
      kept.push_back(std::move(node));
      continue;
    }
    Value& value = graph.at(node.outputs[0]);
    value.source = Value::Source::alias;
    value.alias_of = node.ranges[0];
  }
  graph.nodes = std::move(kept);
}

}  // namespace tandem::graph
