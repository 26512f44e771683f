#include <algorithm>
#include <map>
#include <optional>

#include "graph/passes/passes.h"

namespace tandem::graph {
namespace {

/// Others are left alone: moving them saves little memory and may cost a barrier.
bool is_large(const op::TensorType& type) { return type.bytes(kNominalRows) >= kLargeBytes; }

/// Stays where the trace has it: what it does depends on when it happens, or all replicas meet
/// there, or it is too small to matter.
bool is_fixed(const Node& node) {
  return !node.ranges.empty() || node.op().is_collective || !node.regions.empty() ||
         std::ranges::none_of(node.signature.outputs, is_large);
}

/// For how many nodes each value is in use. Positions are those of the nodes now.
class Lives {
 public:
  explicit Lives(const Graph& graph) : graph_(graph) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (int input : graph.nodes[i].inputs) uses_[graph.storage_of(input)].push_back(i);
    }
    for (int result : graph.results) uses_[graph.storage_of(result)].push_back(kAlways);
  }

  /// The first use of any output; kAlways where there is none but the results.
  size_t first_use(const Node& node) const {
    size_t first = kAlways;
    for (int output : node.outputs) {
      const auto uses = uses_.find(output);
      if (uses == uses_.end()) continue;
      first = std::min(first, *std::ranges::min_element(uses->second));
    }
    return first;
  }

  /// True when each input takes no memory of the program, or is in use at `position` anyway.
  bool inputs_live_until(const Node& node, size_t position) const {
    return std::ranges::all_of(node.inputs, [&](int input) {
      const int storage = graph_.storage_of(input);
      if (graph_.at(storage).source != Value::Source::node) return true;
      return *std::ranges::max_element(uses_.at(storage)) >= position;
    });
  }

  static constexpr size_t kAlways = static_cast<size_t>(-1);

 private:
  const Graph& graph_;
  std::map<int, std::vector<size_t>> uses_;  // By storage.
};

/// Where the node at `index` can move down to, just before its first use; itself where it stays.
size_t lower_place(const Graph& graph, const Lives& lives, size_t index) {
  const Node& node = graph.nodes[index];
  if (is_fixed(node)) return index;
  const size_t use = lives.first_use(node);
  if (use == Lives::kAlways || use <= index + 1) return index;
  // What a variable holds may not change in between.
  for (size_t i = index + 1; i < use; ++i) {
    if (graph.nodes[i].op().writes_ranges) return index;
  }
  return lives.inputs_live_until(node, use) ? use - 1 : index;
}

}  // namespace

void free_early(Graph& graph) {
  std::optional<Lives> lives;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    if (!lives) lives.emplace(graph);
    const size_t place = lower_place(graph, *lives, i);
    if (place == i) continue;
    lives.reset();  // Positions change.
    const auto at = [&](size_t position) {
      return graph.nodes.begin() + static_cast<ptrdiff_t>(position);
    };
    std::rotate(at(i), at(i + 1), at(place + 1));
  }
}

}  // namespace tandem::graph
