#include "graph/graph.h"

namespace tandem::graph {

int Graph::add_value(Value value) {
  values.push_back(std::move(value));
  return static_cast<int>(values.size()) - 1;
}

void Graph::set_input(Node& node, size_t index, int value) const {
  node.inputs[index] = value;
  node.signature.inputs[index] = at(value).type;
}

int Graph::storage_of(int value) const {
  while (at(value).source == Value::Source::alias) value = at(value).alias_of;
  return value;
}

void for_each_node(const Graph& graph, const std::function<void(const Node&)>& visit) {
  for (const Node& node : graph.nodes) {
    visit(node);
    for (const auto& region : node.regions) for_each_node(region->graph, visit);
  }
}

}  // namespace tandem::graph
