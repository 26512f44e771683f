// Some sums over micro-batches are of what the batch itself says, such as the number of examples
// that a mask leaves, by which a loss is divided. They need no variable and no pass through the
// model, so all micro-batches can be asked for them before the first one goes through.
//
//   before   %1 = reduce_sum(mask)  %2 = all_reduce(%1)  ..  loss = %7 / %2  ..
//
//   after    first, for each micro-batch:   %1 = reduce_sum(mask)  accumulate(sum, %1)
//            then the rest of the graph:    %2 = read_variable(sum)  ..  loss = %7 / %2  ..
#include <algorithm>

#include "graph/microbatches.h"
#include "graph/passes/extract.h"
#include "graph/sum_in_time.h"

namespace tandem::graph {
namespace {

/// Which values follow from the batch and constants alone.
class ValuesOfTheBatch {
 public:
  explicit ValuesOfTheBatch(const Graph& graph) : graph_(graph), is_known_(graph.values.size()) {
    for (ValueId v : graph.values.ids()) {
      const Value::Source source = graph.at(v).source;
      is_known_[v] = source == Value::Source::argument || source == Value::Source::constant;
    }
    for (const Node& node : graph.nodes) {
      const bool is_known = node.ranges.empty() && node.regions.empty() &&
                            !node.op().is_collective && !node.op().is_random && knows(node.inputs);
      for (ValueId output : node.outputs) is_known_[output] = is_known;
    }
  }

  bool knows(const ValueIds& values) const {
    return std::ranges::all_of(values, [&](ValueId v) { return is_known_[graph_.storage_of(v)]; });
  }

 private:
  const Graph& graph_;
  ValueMap<bool> is_known_;
};

/// The calls that the inputs of `last` need, in order, and `last`.
std::vector<size_t> with_ancestors(const Graph& graph, const std::vector<size_t>& last) {
  std::vector<bool> is_needed(graph.nodes.size(), false);
  ValueMap<bool> is_used(graph.values.size(), false);
  for (size_t node : last) is_needed[node] = true;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    is_needed[i] =
        is_needed[i] || std::ranges::any_of(node.outputs, [&](ValueId v) { return is_used[v]; });
    if (!is_needed[i]) continue;
    for (ValueId input : node.inputs) is_used[graph.storage_of(input)] = true;
  }
  std::vector<size_t> nodes;
  for (size_t i = 0; i < is_needed.size(); ++i) {
    if (is_needed[i]) nodes.push_back(i);
  }
  return nodes;
}

}  // namespace

std::optional<Segment> take_early_sums(Graph& graph, const devices::DevicePtr& device,
                                       uint64_t owner) {
  const ValuesOfTheBatch of_batch(graph);
  const auto store = std::make_shared<Store>(std::vector{device}, owner, std::vector{device});
  std::vector<Node> rest, additions;
  for (const Node& node : graph.nodes) {
    if (!is_sum(node) || !of_batch.knows(node.inputs)) {
      rest.push_back(node);
      continue;
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      SumInTime sum = sum_in_time(graph, node, i, store);
      additions.push_back(std::move(sum.add));
      rest.push_back(std::move(sum.read));
    }
  }
  if (additions.empty()) return std::nullopt;
  graph.nodes = rest;
  Graph first = graph;
  std::vector<size_t> last;
  for (Node& addition : additions) {
    last.push_back(first.nodes.size());
    first.nodes.push_back(std::move(addition));
  }
  ValueMap<int> tensor_of(first.values.size(), -1);
  for (size_t i = 0; i < first.arguments.size(); ++i) {
    tensor_of[first.arguments[i]] = static_cast<int>(i);
  }
  return Extract(first, with_ancestors(first, last), device, tensor_of).take();
}

}  // namespace tandem::graph
