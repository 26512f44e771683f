/// How often the calls of a step over micro-batches are made.
#pragma once

#include <vector>

#include "graph/exchange_depths.h"
#include "graph/graph.h"
#include "graph/same_everywhere.h"

namespace tandem::graph {

/// Calls of a graph by their positions.
using NodeList = std::vector<size_t>;

/// True for a sum over the replicas that have the same part of a variable.
inline bool is_sum_over_holders(const Node& node) { return node.op().name == "sum_over_holders"; }

/// Says of each call of a graph whether it is made for each micro-batch, once, or wherever its
/// results are needed.
class CallTimes {
 public:
  /// Throws Unimplemented where a micro-batch would have to wait for others in the middle of its
  /// passes, and for variables with a value for each replica.
  explicit CallTimes(const Graph& graph);

  bool is_once(size_t node) const { return is_once_[node]; }
  /// True where micro-batches meet.
  bool is_collective(size_t node) const {
    const Node& call = graph_.nodes[node];
    return is_sum(call) || is_broadcast(call) || is_sum_over_holders(call);
  }
  /// The same for all micro-batches, and computed where it is needed.
  bool is_anywhere(size_t node) const;
  bool is_anywhere(ValueId value) const;

  /// `nodes` and the calls that may be made anywhere and that they need, in order.
  NodeList with_needed(const NodeList& nodes) const;

  /// The call that computes each value, -1 where none does.
  const ValueMap<int>& producers() const { return producers_; }

 private:
  bool follows_meeting(ValueId value) const;
  void check_once(const Node& node) const;
  void check_range(const StoreRange& range) const;

  const Graph& graph_;
  const ExchangeDepths depths_;
  SameEverywhere same_;
  const ValueMap<int> producers_;
  std::vector<bool> is_once_;
};

}  // namespace tandem::graph
