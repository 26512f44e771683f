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

namespace tandem::graph {
namespace {

bool writes(const Node& node, int range) {
  return node.op().writes_ranges && std::ranges::find(node.ranges, range) != node.ranges.end();
}

bool uses(const Graph& graph, const Node& node, int value) {
  return std::ranges::any_of(node.inputs,
                             [&](int input) { return graph.storage_of(input) == value; });
}

/// True when no call between the read and the last use of its value writes the variable.
bool can_elide(const Graph& graph, size_t read) {
  const int value = graph.nodes[read].outputs[0];
  const int range = graph.nodes[read].ranges[0];
  const bool is_result = std::ranges::any_of(
      graph.results, [&](int result) { return graph.storage_of(result) == value; });
  bool written = false;
  for (size_t i = read + 1; i < graph.nodes.size(); ++i) {
    written |= writes(graph.nodes[i], range);
    if (written && uses(graph, graph.nodes[i], value)) return false;
  }
  return !(written && is_result);
}

}  // namespace

void elide_reads(Graph& graph) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].op().name != "read_variable" || !can_elide(graph, i)) continue;
    Value& value = graph.values[static_cast<size_t>(graph.nodes[i].outputs[0])];
    value.source = Value::Source::alias;
    value.alias_of = graph.nodes[i].ranges[0];
    graph.nodes.erase(graph.nodes.begin() + static_cast<ptrdiff_t>(i--));
  }
}

}  // namespace tandem::graph
