#include "graph/graph.h"

namespace tandem::graph {

ValueId Graph::add_value(Value value) {
  const ValueId id{static_cast<int>(values.size())};
  values.push_back(std::move(value));
  return id;
}

void Graph::set_input(Node& node, size_t index, ValueId value) const {
  node.inputs[index] = value;
  node.signature.inputs[index] = at(value).type;
}

ValueId Graph::storage_of(ValueId value) const {
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
