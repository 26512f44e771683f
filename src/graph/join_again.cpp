// A variable of which each replica keeps a part is joined before it is used. Where the backward
// pass uses the whole again, it is joined again, just before, so that it takes no memory in
// between; and what the replicas have of its gradient is summed as soon as it is there, so that
// each keeps its part of the sum alone.
//
//   before   %1 = join_parts(w)   %2 = matmul(x, %1)   ..
//            %8 = matmul(g, %1)   %9 = matmul(x, g)   ..   %12 = sum_to_part(%9)
//   after    %1 = join_parts(w)   %2 = matmul(x, %1)   ..   %13 = join_parts(w)
//            %8 = matmul(g, %13)   %9 = matmul(x, g)   %12 = sum_to_part(%9)   ..
#include <algorithm>
#include <map>
#include <set>

#include "graph/passes/passes.h"

namespace tandem::graph {
namespace {

bool is_join(const Node& node) { return node.op().name == "join_parts"; }

bool is_sum(const Node& node) {
  return node.op().name == "sum_to_part" || node.op().name == "exchange_sum_to_part";
}

/// What a tape has computed is beside the call that it is the gradient of.
bool is_backward(const Node& node) { return node.near != kNoValue; }

/// Copies joins, and views of what they join, to where the backward pass uses them first.
class JoinRepeater {
 public:
  explicit JoinRepeater(Graph& graph) : graph_(graph) {}

  void run() {
    for (Node& node : graph_.nodes) {
      if (is_backward(node)) {
        for (size_t i = 0; i < node.inputs.size(); ++i) {
          if (made_.contains(node.inputs[i])) graph_.set_input(node, i, repeated(node.inputs[i]));
        }
      } else if (is_join(node) || is_view_of_join(node)) {
        made_[node.outputs[0]] = node;
      }
      kept_.push_back(std::move(node));
    }
    graph_.nodes = std::move(kept_);
    remove_unused();
  }

 private:
  /// What the backward pass alone uses is joined there alone. All replicas leave out the same.
  void remove_unused() {
    std::set<ValueId> used(graph_.results.begin(), graph_.results.end());
    std::vector<Node> rest;
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
      Node& node = graph_.nodes[i];
      const bool is_made = !node.outputs.empty() && made_.contains(node.outputs[0]);
      if (is_made && !used.contains(node.outputs[0])) continue;
      used.insert(node.inputs.begin(), node.inputs.end());
      rest.push_back(std::move(node));
    }
    std::ranges::reverse(rest);
    graph_.nodes = std::move(rest);
  }

  bool is_view_of_join(const Node& node) const {
    return node.op().is_view && !node.inputs.empty() && made_.contains(node.inputs[0]);
  }

  /// The value as the backward pass has it.
  ValueId repeated(ValueId value) {
    const auto known = repeated_.find(value);
    if (known != repeated_.end()) return known->second;
    Node again = made_.at(value);
    if (!is_join(again)) graph_.set_input(again, 0, repeated(again.inputs[0]));
    const ValueId copy = graph_.add_value({.type = graph_.at(value).type});
    again.outputs = {copy};
    kept_.push_back(std::move(again));
    return repeated_[value] = copy;
  }

  Graph& graph_;
  std::vector<Node> kept_;
  std::map<ValueId, Node> made_;  // The joins of the forward pass and views of them, by result.
  std::map<ValueId, ValueId> repeated_;
};

/// A sum to parts, or of micro-batches, that is made while what it adds is in the cache.
bool is_early(const Node& node) {
  const op::Attrs& attrs = node.signature.attrs;
  return node.op().name == "accumulate" || (is_sum(node) && !attrs.get<bool>("waits")) ||
         (node.op().name == "reduce_local" && attrs.get<bool>("early"));
}

}  // namespace

void join_again(Graph& graph) {
  if (std::ranges::any_of(graph.nodes, is_join)) JoinRepeater(graph).run();
}

void sum_early(Graph& graph) {
  ValueMap<int> made_at(graph.values.size(), -1);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (is_early(node)) {
      const auto place = static_cast<size_t>(made_at[graph.storage_of(node.inputs[0])] + 1);
      const auto at = [&](size_t n) { return graph.nodes.begin() + static_cast<ptrdiff_t>(n); };
      std::rotate(at(place), at(i), at(i + 1));
      for (int& made : made_at) made += made >= static_cast<int>(place) ? 1 : 0;
      for (ValueId output : graph.nodes[place].outputs) made_at[output] = static_cast<int>(place);
      continue;
    }
    for (ValueId output : node.outputs) made_at[output] = static_cast<int>(i);
  }
}

}  // namespace tandem::graph
