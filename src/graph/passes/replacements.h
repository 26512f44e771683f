/// Values of a graph that others take the place of, while a pass walks its nodes in order.
#pragma once

#include "graph/graph.h"

namespace tandem::graph {

class Replacements {
 public:
  explicit Replacements(Graph& graph) : graph_(graph), by_(graph.values.size()) {
    for (ValueId value : by_.ids()) by_[value] = value;
  }

  /// Whoever uses `value` after this uses `by`, which must be computed before.
  void replace(ValueId value, ValueId by) { by_[value] = now(by); }

  ValueId now(ValueId value) const {
    // Values added by the pass itself stand for themselves.
    return by_.contains(value) ? by_[value] : value;
  }

  void update(Node& node) const {
    for (ValueId& input : node.inputs) input = now(input);
    if (node.near != kNoValue) node.near = now(node.near);
  }

  /// Ends the replacement. It is called when all nodes are updated.
  void finish() {
    for (ValueId& result : graph_.results) result = now(result);
    for (Value& value : graph_.values) {
      if (value.source == Value::Source::alias) value.alias_of = now(value.alias_of);
    }
  }

 private:
  Graph& graph_;
  ValueMap<ValueId> by_;
};

}  // namespace tandem::graph
