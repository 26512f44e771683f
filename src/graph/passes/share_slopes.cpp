// gelu and silu cost tens of instructions for each element, and their gradients as many again, of
// the same intermediate values. Where a program has both, one call computes value and slope, and
// the gradient is a product.
//
//   before   %2 = gelu(%1)                  ..   %8 = gelu_grad(%7, %1)
//   after    %2, %3 = gelu_with_slope(%1)   ..   %8 = mul(%7, %3)
//
// It is done only where no other call uses %1: then the slope is kept instead of %1, not besides.
#include <algorithm>
#include <string_view>
#include <utility>

#include "graph/passes/passes.h"
#include "graph/uses.h"
#include "op/registry.h"

namespace tandem::graph {
namespace {

struct Shared {
  std::string_view activation, gradient, both;
};
constexpr Shared kShared[] = {{"gelu", "gelu_grad", "gelu_with_slope"},
                              {"gelu_tanh", "gelu_tanh_grad", "gelu_tanh_with_slope"},
                              {"silu", "silu_grad", "silu_with_slope"}};

class Sharer {
 public:
  explicit Sharer(Graph& graph) : graph_(graph), uses_(graph) {}

  void run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (const Shared& shared : kShared) {
        if (graph_.nodes[i].op().name == shared.activation) share(i, shared);
      }
    }
  }

 private:
  void share(size_t index, const Shared& shared) {
    const ValueId x = graph_.nodes[index].inputs[0];
    // What a call has not made is kept anyway.
    if (graph_.at(graph_.storage_of(x)).source != Value::Source::node) return;
    const std::vector<Use>& uses = uses_.of(x);
    const auto is_x = [&](ValueId value) {
      return graph_.storage_of(value) == graph_.storage_of(x);
    };
    const auto is_gradient = [&](const Use& use) {
      if (use.call <= index || use.is_result()) return false;
      const Node& node = graph_.nodes[use.call];
      return node.op().name == shared.gradient && !is_x(node.inputs[0]) &&
             graph_.at(node.inputs[1]).type == graph_.at(x).type;
    };
    const bool nobody_else = std::ranges::all_of(
        uses, [&](const Use& use) { return use.call == index || is_gradient(use); });
    if (uses.size() < 2 || !nobody_else) return;
    const ValueId slope = graph_.add_value({.type = graph_.at(x).type});
    Node& activation = graph_.nodes[index];
    activation.signature.op = &op::find_op(shared.both);
    activation.outputs.push_back(slope);
    activation.signature.outputs.push_back(graph_.at(slope).type);
    for (const Use& use : uses) {
      if (use.call == index) continue;
      Node& gradient = graph_.nodes[use.call];
      gradient.signature.op = &op::find_op("mul");
      gradient.inputs[1] = slope;
    }
  }

  Graph& graph_;
  const Uses uses_;
};

}  // namespace

void share_slopes(Graph& graph) { Sharer(graph).run(); }

}  // namespace tandem::graph
