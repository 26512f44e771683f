#include "graph/pipeline/call_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tandem/error.h"
#include "tensor/store.h"

namespace tandem::graph {
namespace {

ValueMap<int> producers_of(const Graph& graph) {
  ValueMap<int> producers(graph.values.size(), -1);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (ValueId output : graph.nodes[i].outputs) producers[output] = static_cast<int>(i);
  }
  return producers;
}

[[noreturn]] void throw_deep(const Node& node) {
  throw Unimplemented(fmt::format(
      "{}: a sum over micro-batches that needs another such sum; a micro-batch would have to "
      "wait for all others in the middle of its passes. Batch normalisation takes the statistics "
      "of each micro-batch here; synchronized ones need replicas",
      node.op().name));
}

}  // namespace

CallTimes::CallTimes(const Graph& graph)
    : graph_(graph),
      depths_(graph),
      same_(graph, SameEverywhere::Over::time),
      producers_(producers_of(graph)),
      is_once_(graph.nodes.size(), false) {
  std::set<VariableMemory> written;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const bool follows =
        std::ranges::any_of(node.inputs, [&](ValueId input) { return follows_meeting(input); }) ||
        std::ranges::any_of(node.ranges, [&](ValueId range) {
          return written.contains(memory_of(graph.at(range).range));
        });
    is_once_[i] = depths_.of(i) > 0 || node.op().writes_ranges || follows;
    if (is_collective(i) && is_once_[i]) throw_deep(node);
    for (ValueId range : node.ranges) {
      // An update may be of parts of a variable that all see as a whole.
      if (!node.op().is_update) check_range(graph.at(range).range);
      if (node.op().writes_ranges) written.insert(memory_of(graph.at(range).range));
    }
    same_.add(node);
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (is_once_[i]) check_once(graph.nodes[i]);
  }
}

bool CallTimes::is_anywhere(size_t node) const {
  return !is_once_[node] && !is_collective(node) && !graph_.nodes[node].outputs.empty() &&
         std::ranges::all_of(graph_.nodes[node].outputs,
                             [&](ValueId output) { return same_.contains(output); });
}

bool CallTimes::is_anywhere(ValueId value) const {
  if (!producers_.contains(value)) return false;  // A sum that was added since.
  const int producer = producers_[graph_.storage_of(value)];
  return producer >= 0 && is_anywhere(static_cast<size_t>(producer));
}

NodeList CallTimes::with_needed(const NodeList& nodes) const {
  std::set<size_t> all(nodes.begin(), nodes.end());
  NodeList open = nodes;
  while (!open.empty()) {
    const Node& node = graph_.nodes[open.back()];
    open.pop_back();
    for (ValueId input : node.inputs) {
      if (!is_anywhere(input)) continue;
      const auto producer = static_cast<size_t>(producers_[graph_.storage_of(input)]);
      if (all.insert(producer).second) open.push_back(producer);
    }
  }
  return {all.begin(), all.end()};
}

/// True for what is computed once, and for what holders of the same part have summed: of other
/// sums the depth tells.
bool CallTimes::follows_meeting(ValueId value) const {
  const int producer = producers_[graph_.storage_of(value)];
  if (producer < 0) return false;
  const auto p = static_cast<size_t>(producer);
  return is_once_[p] || is_sum_over_holders(graph_.nodes[p]);
}

/// What runs once may use sums, what is the same for all micro-batches, and arguments that are.
void CallTimes::check_once(const Node& node) const {
  for (ValueId input : node.inputs) {
    const ValueId value = graph_.storage_of(input);
    const int producer = producers_[value];
    const auto p = static_cast<size_t>(producer);
    const bool is_known = producer >= 0 ? is_once_[p] || is_collective(p) || is_anywhere(p)
                                        : !graph_.at(value).type.shape.is_symbolic();
    if (is_known) continue;
    throw Unimplemented(
        fmt::format("{}: with micro-batches it needs a sum over all of them and a value {} of its "
                    "own micro-batch at the same time; sum or average that value before it is used",
                    node.op().name, graph_.at(value).type.str()));
  }
}

/// Members of a stage may have parts of a variable, each for all micro-batches.
void CallTimes::check_range(const StoreRange& range) const {
  if (range.stride == 0) return;
  throw Unimplemented(
      fmt::format("variable {}: it has a value of its own for each replica, which micro-batches "
                  "do not have; create it with VariableSynchronization::automatic",
                  range.name()));
}

}  // namespace tandem::graph
