/// The values that are the same on every replica: constants, variables that replicas share, results
/// of collectives, and what is computed from nothing else.
#pragma once

#include <algorithm>

#include "graph/graph.h"

namespace tandem::graph {

/// Knows the values of the calls that were added, in their order.
class SameEverywhere {
 public:
  /// What is compared.
  enum class Over {
    replicas,
    time,  ///< What one replica has at different times: its part of a variable is the same, and
           ///< so is what is joined of the parts.
  };
  explicit SameEverywhere(const Graph& graph, Over over = Over::replicas)
      : graph_(graph),
        over_(over),
        is_same_(graph.values.size(), false),
        is_part_(graph.values.size(), false) {
    for (ValueId v : graph.values.ids()) {
      is_same_[v] = graph.at(v).source == Value::Source::constant;
    }
  }

  bool contains(ValueId value) const { return is_same_[graph_.storage_of(value)]; }

  void add(const Node& node) {
    for (ValueId output : node.outputs) is_part_[output] = reads_part(node);
    if (!has_same_results(node)) return;
    for (ValueId output : node.outputs) {
      is_same_[output] = !graph_.at(output).type.shape.is_symbolic();
    }
  }

 private:
  bool has_same_results(const Node& node) const {
    const op::OpDef& op = node.op();
    if (op.name == "all_reduce" || op.name == "broadcast") return true;
    // What other calls take from the run, the rows and the number of all replicas, is the same.
    if (op.name == "join_parts") return joins_same(node);
    if (op.is_collective || op.is_random || op.name == "replica_id" || !node.regions.empty()) {
      return false;
    }
    return std::ranges::all_of(node.inputs, [&](ValueId input) { return contains(input); }) &&
           std::ranges::all_of(node.ranges, [&](ValueId range) { return is_same(range); });
  }

  /// Those who keep the same part of a variable have the same value there.
  bool reads_part(const Node& node) const {
    return node.op().name == "read_variable" && graph_.at(node.ranges[0]).range.is_own_part();
  }

  bool joins_same(const Node& node) const {
    return is_part_[node.inputs[0]] || (over_ == Over::time && contains(node.inputs[0]));
  }

  bool is_same(ValueId variable) const {
    const StoreRange& range = graph_.at(variable).range;
    return over_ == Over::time ? range.stride == 0 : range.is_same_for_all();
  }

  const Graph& graph_;
  const Over over_;
  ValueMap<bool> is_same_;
  ValueMap<bool> is_part_;  // What was read of a variable in parts.
};

}  // namespace tandem::graph
