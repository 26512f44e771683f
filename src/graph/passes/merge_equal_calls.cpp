// Where two calls of one op have the same inputs and attributes, the first is made and its results
// stand for those of the second. Gradient functions often compute again what was computed forward.
//
//   before   %2 = exp(%1)   %3 = exp(%1)   %4 = mul(%2, %3)
//   after    %2 = exp(%1)                  %4 = mul(%2, %2)
#include <unordered_map>

#include "graph/passes/passes.h"
#include "graph/passes/replacements.h"
#include "op/hash.h"

namespace tandem::graph {
namespace {

/// Two calls alike give the same.
bool is_pure(const Node& node) {
  const op::OpDef& op = node.op();
  return node.regions.empty() && !op.has_effect() && !op.is_random && !op.is_collective &&
         node.ranges.empty();
}

bool is_same_call(const Node& a, const Node& b) {
  return a.signature.op == b.signature.op && a.inputs == b.inputs && a.device == b.device &&
         a.signature.outputs == b.signature.outputs && a.signature.attrs == b.signature.attrs;
}

size_t hash_of(const Node& node) {
  size_t seed = op::mixed(static_cast<size_t>(node.op().id), node.signature.attrs.hash());
  for (ValueId input : node.inputs) seed = op::mixed(seed, index_of(input));
  return seed;
}

}  // namespace

void merge_equal_calls(Graph& graph) {
  Replacements replaced(graph);
  std::unordered_multimap<size_t, const Node*> seen;
  std::vector<Node> kept;
  kept.reserve(graph.nodes.size());  // So that `seen` may point into it.
  for (Node& node : graph.nodes) {
    replaced.update(node);
    if (is_pure(node)) {
      const size_t hash = hash_of(node);
      const auto [begin, end] = seen.equal_range(hash);
      const auto same = std::find_if(
          begin, end, [&](const auto& entry) { return is_same_call(*entry.second, node); });
      if (same != end) {
        for (size_t i = 0; i < node.outputs.size(); ++i) {
          replaced.replace(node.outputs[i], same->second->outputs[i]);
        }
        continue;
      }
      kept.push_back(std::move(node));
      seen.emplace(hash, &kept.back());
    } else {
      kept.push_back(std::move(node));
    }
  }
  graph.nodes = std::move(kept);
  replaced.finish();
}

}  // namespace tandem::graph
