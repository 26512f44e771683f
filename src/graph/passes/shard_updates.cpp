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

#include "graph/passes/passes.h"
#include "graph/uses.h"
#include "op/registry.h"
#include "op/update.h"

namespace tandem::graph {
namespace {

/// True for an update whose gradients are the outputs of `reduce`, so that both are cut into the
/// same chunks.
bool is_update_of(const Node& user, const Node& reduce) {
  return user.op().is_update &&
         std::ranges::equal(reduce.outputs,
                            op::UpdateLayout(user.signature).gradients(user.inputs));
}

bool only_updates_use(const Graph& graph, const Uses& uses, const Node& reduce) {
  return std::ranges::all_of(reduce.outputs, [&](ValueId output) {
    return std::ranges::all_of(uses.of(output), [&](const Use& use) {
      return !use.is_result() && is_update_of(graph.nodes[use.call], reduce);
    });
  });
}

}  // namespace

void shard_updates(Graph& graph) {
  const Uses uses(graph);
  for (Node& node : graph.nodes) {
    if (node.op().name == "all_reduce" && only_updates_use(graph, uses, node)) {
      node.signature.op = &op::find_op("reduce_scatter");
    }
  }
}

}  // namespace tandem::graph
