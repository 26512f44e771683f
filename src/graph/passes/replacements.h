/// Values of a graph that others take the place of, while a pass walks its nodes in order.
#pragma once

#include <numeric>
#include <vector>

#include "graph/graph.h"

namespace tandem::graph {

class Replacements {
 public:
  explicit Replacements(Graph& graph) : graph_(graph), by_(graph.values.size()) {
    std::iota(by_.begin(), by_.end(), 0);
  }

  /// Whoever uses `value` after this uses `by`, which must be computed before.
  void replace(int value, int by) { by_[static_cast<size_t>(value)] = now(by); }

  int now(int value) const {
    // Values added by the pass itself stand for themselves.
    return static_cast<size_t>(value) < by_.size() ? by_[static_cast<size_t>(value)] : value;
  }

  void update(Node& node) const {
    for (int& input : node.inputs) input = now(input);
    if (node.near >= 0) node.near = now(node.near);
  }

  /// Ends the replacement. It is called when all nodes are updated.
  void finish() {
    for (int& result : graph_.results) result = now(result);
    for (Value& value : graph_.values) {
      if (value.source == Value::Source::alias) value.alias_of = now(value.alias_of);
    }
  }

 private:
  Graph& graph_;
  std::vector<int> by_;
};

}  // namespace tandem::graph
