/// Who uses each value of a graph, as the graph is when this is made: its inputs, results, and the
/// variables that its calls read in place. A use of a view is one of the memory that it lies in.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace tandem::graph {

struct Use {
  /// In place of a call: the function returns the value.
  static constexpr size_t kResult = static_cast<size_t>(-1);

  size_t call;    ///< Its position among the nodes.
  ValueId value;  ///< The value itself, or the view of it that the call has as its operand.

  bool is_result() const { return call == kResult; }
};

class Uses {
 public:
  explicit Uses(const Graph& graph);

  /// The uses of the memory of a value, each as often as a call has it, in the calls' order;
  /// results come last.
  const std::vector<Use>& of(ValueId value) const { return by_value_[graph_.storage_of(value)]; }

  bool is_used(ValueId value) const { return !of(value).empty(); }

  /// True when the call at this position, or a later one, or the caller of the function uses it.
  bool is_used_from(ValueId value, size_t call) const {
    return is_used(value) && of(value).back().call >= call;
  }

  bool is_used_by(ValueId value, size_t call) const;

 private:
  void add(ValueId value, size_t call);

  const Graph& graph_;
  ValueMap<std::vector<Use>> by_value_;  // By value that owns memory.
};

}  // namespace tandem::graph
