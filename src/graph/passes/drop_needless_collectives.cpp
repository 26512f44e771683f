// Finds the values that are the same on every replica: constants, variables that replicas share,
// results of collectives, and what is computed from nothing else. Replicas need not tell each other
// such a value.
//
//   before   %3 = is_finite(sum of losses)   %4 = cast(%3)   %5 = broadcast(%4)   assign_add(%5)
//   after    %3 = is_finite(sum of losses)   %4 = cast(%3)                        assign_add(%4)
//
// The mean over n replicas is a sum and a product with 1/n; where the summed value is the same for
// all, both go.
#include <algorithm>

#include "graph/passes/passes.h"
#include "graph/passes/replacements.h"
#include "graph/same_everywhere.h"
#include "graph/uses.h"

namespace tandem::graph {
namespace {

/// Drops collectives while it walks a graph.
class Dropper {
 public:
  Dropper(Graph& graph, int all)
      : graph_(graph), all_(all), same_(graph), made_by_(graph.values.size(), -1) {}

  void run() {
    Replacements replaced(graph_);
    for (Node& node : graph_.nodes) {
      replaced.update(node);
      if (node.op().name == "broadcast" && is_needless(node)) {
        for (size_t i = 0; i < node.inputs.size(); ++i) {
          replaced.replace(node.outputs[i], node.inputs[i]);
        }
        continue;
      }
      if (const Node* sum = needless_mean(node)) {
        replaced.replace(node.outputs[0], sum->inputs[0]);
        continue;
      }
      same_.add(node);
      for (ValueId output : node.outputs) made_by_[output] = static_cast<int>(kept_.size());
      kept_.push_back(std::move(node));
    }
    graph_.nodes = std::move(kept_);
    replaced.finish();
    remove_unused_sums();
  }

 private:
  bool is_needless(const Node& node) const {
    return std::ranges::all_of(node.inputs, [&](ValueId input) { return same_.contains(input); });
  }

  const Node* maker_of(ValueId value) const {
    return made_by_[value] < 0 ? nullptr : &kept_[static_cast<size_t>(made_by_[value])];
  }

  /// For a call that makes the mean of a value that is the same everywhere, the sum in it; else
  /// null.
  const Node* needless_mean(const Node& node) const {
    if (node.op().name != "mul" || !is_one_part(node.inputs[1])) return nullptr;
    const Node* sum = maker_of(node.inputs[0]);
    const bool sums_one =
        sum != nullptr && sum->op().name == "all_reduce" && sum->inputs.size() == 1;
    return sums_one && is_needless(*sum) ? sum : nullptr;
  }

  /// True for the constant that a mean over all replicas multiplies by.
  bool is_one_part(ValueId value) const {
    const double part = 1.0 / all_;
    const Value& held = graph_.at(value);
    if (held.source == Value::Source::constant && held.type.shape.total_extent() == 1) {
      if (held.type.dtype == DType::float32) {
        return held.constant.item<float>() == static_cast<float>(part);
      }
      return held.type.dtype == DType::float64 && held.constant.item<double>() == part;
    }
    const Node* node = maker_of(value);
    return node != nullptr && node->op().name == "fill" &&
           node->signature.attrs.get<double>("value") == part;
  }

  void remove_unused_sums() const {
    const Uses uses(graph_);
    std::erase_if(graph_.nodes, [&](const Node& node) {
      return node.op().name == "all_reduce" && is_needless(node) &&
             std::ranges::none_of(node.outputs,
                                  [&](ValueId output) { return uses.is_used(output); });
    });
  }

  Graph& graph_;
  const int all_;
  SameEverywhere same_;
  std::vector<Node> kept_;
  ValueMap<int> made_by_;  // The call that computes each value, by its place in kept_.
};

}  // namespace

void drop_needless_collectives(Graph& graph, int all) { Dropper(graph, all).run(); }

}  // namespace tandem::graph
