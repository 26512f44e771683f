/// Which calls use each value of a graph, as the graph is when this is made.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace tandem::graph {

class Uses {
 public:
  /// Stands in place of a call where the function returns the value.
  static constexpr size_t kResult = static_cast<size_t>(-1);

  explicit Uses(const Graph& graph) : graph_(graph), calls_(graph.values.size()) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (int input : graph.nodes[i].inputs) add(input, i);
    }
    for (int result : graph.results) add(result, kResult);
  }

  /// Positions of the calls that use the memory of a value, each as often as it does, in order.
  const std::vector<size_t>& of(int value) const {
    return calls_[static_cast<size_t>(graph_.storage_of(value))];
  }

 private:
  void add(int value, size_t call) {
    calls_[static_cast<size_t>(graph_.storage_of(value))].push_back(call);
  }

  const Graph& graph_;
  std::vector<std::vector<size_t>> calls_;  // The calls, for each value that owns memory.
};

}  // namespace tandem::graph
