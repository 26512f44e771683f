#include <set>

#include "graph/passes/passes.h"
#include "op/registry.h"

namespace tandem::graph {

void copy_shared_results(Graph& graph) {
  std::set<int> taken;
  for (int& result : graph.results) {
    const bool own = graph.at(result).source == Value::Source::node && taken.insert(result).second;
    if (own) continue;
    const op::TensorType type = graph.at(result).type;
    const int copy = graph.add_value({.source = Value::Source::node, .type = type});
    graph.nodes.push_back({{&op::find_op("reshape"), {type}, {type}, {{"shape", type.shape}}, {}},
                           {result},
                           {copy},
                           {}});
    result = copy;
  }
}

}  // namespace tandem::graph
