// A program writes each of its results into a tensor of its own, by the call that computes it. So a
// result that no call computes (an argument, a variable, a view), or that is returned twice, gets a
// call that copies it. That call is a reshape to the same shape: after alias_reshapes a reshape is
// a copy.
//
//   before   results: x, %1, %1
//   after    %2 = reshape(x)   %3 = reshape(%1)   results: %2, %1, %3
#include <set>

#include "graph/passes/passes.h"
#include "op/registry.h"

namespace tandem::graph {

void copy_shared_results(Graph& graph) {
  std::set<ValueId> taken;
  for (ValueId& result : graph.results) {
    const bool own = graph.at(result).source == Value::Source::node && taken.insert(result).second;
    if (own) continue;
    const op::TensorType type = graph.at(result).type;
    const ValueId copy = graph.add_value({.source = Value::Source::node, .type = type});
    graph.nodes.push_back({{&op::find_op("reshape"), {type}, {type}, {{"shape", type.shape}}, {}},
                           {result},
                           {copy},
                           {}});
    result = copy;
  }
}

}  // namespace tandem::graph
