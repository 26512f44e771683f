// A call moves down to just before the first use of its result where that frees memory: where its
// inputs must be kept until then anyway, the result need not be kept as well.
//
//   before   %2 = mul(%1, s)   %3 = matmul(%1, w)   ..   %8 = add(%1, %2)
//   after    %3 = matmul(%1, w)   ..   %2 = mul(%1, s)   %8 = add(%1, %2)
#include <algorithm>
#include <optional>

#include "graph/passes/passes.h"
#include "graph/uses.h"

namespace tandem::graph {
namespace {

/// Only large values are moved: for others it saves little memory and may cost a barrier.
bool is_large(const op::TensorType& type) { return type.bytes(kNominalRows) >= kLargeBytes; }

/// A node that stays where the trace has it: what it does depends on when it happens, or all
/// replicas meet there, or it is too small to matter.
bool is_fixed(const Node& node) {
  return !node.ranges.empty() || node.op().is_collective || !node.regions.empty() ||
         std::ranges::none_of(node.signature.outputs, is_large);
}

/// The first call that uses any output of a node; Use::kResult where there is none.
size_t first_use(const Uses& uses, const Node& node) {
  size_t first = Use::kResult;
  for (ValueId output : node.outputs) {
    if (uses.is_used(output)) first = std::min(first, uses.of(output).front().call);
  }
  return first;
}

/// True when each input takes no memory of the program, or is in use at `position` anyway.
bool inputs_live_until(const Graph& graph, const Uses& uses, const Node& node, size_t position) {
  return std::ranges::all_of(node.inputs, [&](ValueId input) {
    const bool is_kept = graph.at(graph.storage_of(input)).source != Value::Source::node;
    return is_kept || uses.is_used_from(input, position);
  });
}

/// Where the node at `index` can move down to, just before its first use; itself where it stays.
size_t lower_place(const Graph& graph, const Uses& uses, size_t index) {
  const Node& node = graph.nodes[index];
  if (is_fixed(node)) return index;
  const size_t use = first_use(uses, node);
  if (use == Use::kResult || use <= index + 1) return index;
  // What a variable holds may not change in between.
  for (size_t i = index + 1; i < use; ++i) {
    if (graph.nodes[i].op().writes_ranges) return index;
  }
  return inputs_live_until(graph, uses, node, use) ? use - 1 : index;
}

}  // namespace

void free_early(Graph& graph) {
  std::optional<Uses> uses;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    if (!uses) uses.emplace(graph);
    const size_t place = lower_place(graph, *uses, i);
    if (place == i) continue;
    uses.reset();  // Positions change.
    const auto at = [&](size_t position) {
      return graph.nodes.begin() + static_cast<ptrdiff_t>(position);
    };
    std::rotate(at(i), at(i + 1), at(place + 1));
  }
}

}  // namespace tandem::graph
