#include "graph/summed_gradients.h"

#include <algorithm>
#include <ranges>

#include "op/update.h"

namespace tandem::graph {

SummedGradients::SummedGradients(const Graph& graph, WithNorms with_norms)
    : graph_(graph),
      uses_(graph),
      with_norms_(with_norms),
      is_gradient_(graph.values.size(), false) {
  // From the last call to the first: a value's uses are decided before it.
  for (const Node& node : std::views::reverse(graph.nodes)) {
    for (ValueId output : node.outputs) is_gradient_[output] = is_used_in_parts(output);
  }
}

bool SummedGradients::is_used_in_parts(ValueId value) const {
  bool is_updated = false;
  for (const Use& use : uses_.of(value)) {
    if (use.is_result() || use.value != value) return false;
    const Node& node = graph_.nodes[use.call];
    if (is_norm_of(node)) continue;
    const bool goes_on = maps_elements_of(graph_, node, value) && is_gradient_[node.outputs[0]];
    if (!goes_on && !is_update_of(node, value)) return false;
    is_updated = true;
  }
  return is_updated;
}

bool SummedGradients::is_update_of(const Node& node, ValueId value) const {
  if (!node.op().is_update) return false;
  const op::UpdateLayout layout(node.signature);
  return std::ranges::count(layout.gradients(node.inputs), value) == 1 &&
         std::ranges::count(node.inputs, value) == 1;
}

bool SummedGradients::is_norm_of(const Node& node) const {
  if (node.op().name == "square_sum_of_part") return true;
  if (with_norms_ == WithNorms::no || node.op().name != "square") return false;
  const std::vector<Use>& uses = uses_.of(node.outputs[0]);
  return !uses.empty() && std::ranges::all_of(uses, [&](const Use& use) {
    return !use.is_result() && use.value == node.outputs[0] && is_whole_sum(graph_.nodes[use.call]);
  });
}

bool maps_elements_of(const Graph& graph, const Node& node, ValueId value) {
  const op::TensorType& type = graph.at(value).type;
  return node.op().pointwise && node.outputs.size() == 1 &&
         graph.at(node.outputs[0]).type == type && !type.shape.is_symbolic() &&
         std::ranges::all_of(node.inputs, [&](ValueId input) {
           return input == value || graph.at(input).type.shape.total_extent() == 1;
         });
}

bool is_whole_sum(const Node& node) {
  constexpr int64_t kUnscaled = 0;
  return node.op().name == "reduce" && node.signature.outputs[0].shape.total_extent() == 1 &&
         node.signature.attrs.get<int64_t>("scale") == kUnscaled;
}

}  // namespace tandem::graph
