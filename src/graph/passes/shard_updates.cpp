// Replicas sum their gradients and then update the variables, which they share. Where an update
// alone uses the sums, each thread needs only those chunks of them that it will update: an
// all_reduce, which gives all sums to all replicas, becomes a reduce_scatter, which gives each
// thread its own chunks.
//
//   before   %7, %8 = all_reduce(dw, db)       adam_update(%7, %8, ..)
//   after    %7, %8 = reduce_scatter(dw, db)   adam_update(%7, %8, ..)
//
// The two must be cut into the same chunks; then no barrier is needed between them either.
#include <algorithm>
#include <span>

#include "graph/passes/passes.h"
#include "op/registry.h"

namespace tandem::graph {
namespace {

bool is_result(const Graph& graph, int value) {
  return std::ranges::any_of(graph.results,
                             [&](int result) { return graph.storage_of(result) == value; });
}

/// True when the inputs of `user` begin with the outputs of `reduce` and only these are cut into
/// chunks, so that they are the same chunks.
bool is_update_of(const Node& user, const Node& reduce) {
  if (!user.op().writes_ranges || user.inputs.size() < reduce.outputs.size() ||
      !std::ranges::equal(reduce.outputs, std::span(user.inputs).first(reduce.outputs.size()))) {
    return false;
  }
  const op::Split split = user.op().split(user.signature);
  return split.unit == op::Split::Unit::chunk && split.aligned.size() == reduce.outputs.size();
}

bool only_updates_use(const Graph& graph, const Node& reduce) {
  for (int output : reduce.outputs) {
    if (is_result(graph, output)) return false;
    for (const Node& node : graph.nodes) {
      const bool uses = std::ranges::any_of(
          node.inputs, [&](int input) { return graph.storage_of(input) == output; });
      if (uses && !is_update_of(node, reduce)) return false;
    }
  }
  return true;
}

}  // namespace

void shard_updates(Graph& graph) {
  for (Node& node : graph.nodes) {
    if (node.op().name == "all_reduce" && only_updates_use(graph, node)) {
      node.signature.op = &op::find_op("reduce_scatter");
    }
  }
}

}  // namespace tandem::graph
