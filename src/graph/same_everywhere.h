/// The values that are the same on every replica: constants, variables that replicas share, results
/// of collectives, and what is computed from nothing else. Those that have the same part of a
/// variable have the same sums of its gradient, too, and where all parts meet again the result is
/// the same on every replica.
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
      : graph_(graph), over_(over), values_(graph.values.size(), 0) {
    for (ValueId v : graph.values.ids()) {
      values_[v] = graph.at(v).source == Value::Source::constant ? 1 : 0;
    }
  }

  bool contains(ValueId value) const { return count_of(value) == 1; }

  void add(const Node& node) {
    const int count = count_of_results(node);
    for (ValueId output : node.outputs) {
      values_[output] = graph_.at(output).type.shape.is_symbolic() ? 0 : count;
    }
  }

 private:
  int count_of(ValueId value) const { return values_[graph_.storage_of(value)]; }

  int count_of_results(const Node& node) const {
    const std::string& name = node.op().name;
    const auto number = [&](const char* attr) {
      return static_cast<int>(node.signature.attrs.get<int64_t>(attr));
    };
    if (name == "all_reduce" || name == "broadcast") return 1;
    if (name == "join_parts") return is_whole_after_meeting(node, number("parts")) ? 1 : 0;
    if (over_ == Over::replicas) {
      if (name == "sum_over_model") return is_whole_after_meeting(node, number("model")) ? 1 : 0;
      if (name == "sum_over_holders") return number("parts");
      if (name == "own_part") return contains(node.inputs[0]) ? number("parts") : 0;
    }
    // What other calls take from the run, the rows and the number of all replicas, is the same.
    const op::OpDef& op = node.op();
    if (op.is_collective || op.is_random || name == "replica_id" || !node.regions.empty()) return 0;
    int most = 1;
    for (ValueId input : node.inputs) most = either(most, count_of(input));
    for (ValueId range : node.ranges) most = either(most, count_of_range(graph_.at(range).range));
    return most;
  }

  /// All that there is of a value meets, wherever so many neighbours do.
  bool is_whole_after_meeting(const Node& node, int neighbours) const {
    return std::ranges::all_of(node.inputs, [&](ValueId input) {
      return count_of(input) > 0 && count_of(input) <= neighbours;
    });
  }

  int count_of_range(const StoreRange& range) const {
    if (range.stride != 0) return 0;
    return over_ == Over::replicas && range.is_own_part() ? range.block->parts() : 1;
  }

  static int either(int a, int b) { return a == 0 || b == 0 ? 0 : std::max(a, b); }

  const Graph& graph_;
  const Over over_;
  // How many values there are over the replicas: 1 is the same everywhere, n is one for each of n
  // parts, the same for all who hold that part; 0 may be any number.
  ValueMap<int> values_;
};

}  // namespace tandem::graph
