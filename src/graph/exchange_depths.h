/// How often replicas must have met before a call can be made.
#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace tandem::graph {

inline bool is_sum(const Node& node) { return node.op().name == "all_reduce"; }
inline bool is_broadcast(const Node& node) { return node.op().name == "broadcast"; }

/// What tells the variables of a graph apart: one that is seen as a whole and in parts is alone in
/// its block.
using VariableMemory = std::pair<const StoreBlock*, int64_t>;
inline VariableMemory memory_of(const StoreRange& range) {
  return {range.block.get(), range.stride > 0 ? 0 : range.offset};
}

/// How many exchanges, one after another, each call must wait for. Calls keep their order with the
/// assigns of the variables that they read.
class ExchangeDepths {
 public:
  explicit ExchangeDepths(const Graph& graph) : of_value_(graph.values.size(), 0) {
    for (const Node& node : graph.nodes) {
      const int depth = depth_of(graph, node);
      of_node_.push_back(depth);
      const int later = depth + (is_sum(node) || is_broadcast(node) ? 1 : 0);
      for (ValueId output : node.outputs) of_value_[output] = later;
      note_ranges(graph, node, depth);
    }
  }

  int of(size_t node) const { return of_node_[node]; }
  int most() const { return of_node_.empty() ? 0 : *std::ranges::max_element(of_node_); }

 private:
  int depth_of(const Graph& graph, const Node& node) const {
    int depth = 0;
    for (ValueId input : node.inputs) {
      depth = std::max(depth, of_value_[graph.storage_of(input)]);
    }
    for (ValueId range : node.ranges) {
      const auto known = ranges_.find(memory_of(graph.at(range).range));
      if (known != ranges_.end()) {
        depth = std::max(depth, known->second.written);
        if (may_write(node)) depth = std::max(depth, known->second.read);
      }
    }
    return depth;
  }

  static bool may_write(const Node& node) {
    return node.op().writes_ranges || !node.regions.empty();
  }

  void note_ranges(const Graph& graph, const Node& node, int depth) {
    for (ValueId range : node.ranges) {
      RangeDepth& known = ranges_[memory_of(graph.at(range).range)];
      int& latest = may_write(node) ? known.written : known.read;
      latest = std::max(latest, depth);
    }
  }

  struct RangeDepth {
    int read = 0;
    int written = 0;
  };
  ValueMap<int> of_value_;
  std::vector<int> of_node_;
  std::map<VariableMemory, RangeDepth> ranges_;
};

}  // namespace tandem::graph
