// The gradient of max pooling has a window's gradient at one place of the window and zero
// elsewhere. So what depends on that place alone, or sums over all places, is done before it, to
// the gradients of the windows, which are fewer.
//
//   before   %8 = max_pool2d_grad(y, p, g)   %9 = relu_grad(%8, y)   %10 = reduce(%9; axes=[0,1,2])
//   after    %8 = relu_grad(g, p)   %9 = max_pool2d_grad(y, p, %8)   %10 = reduce(%8; axes=[0,1,2])
//
// Here y is what was pooled and p the result; %10 is the gradient of a convolution's bias. A sum
// over the image is taken before the gradient of average pooling in the same way.
#include <algorithm>

#include "graph/passes/passes.h"
#include "graph/uses.h"
#include "ops/reduction/reduction_rules.h"

namespace tandem::graph {
namespace {

class Shrinker {
 public:
  explicit Shrinker(Graph& graph) : graph_(graph), maker_(graph.values.size(), -1), uses_(graph) {}

  void run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      move_up_relu_grad(i);
      sum_windows(graph_.nodes[i]);
      for (ValueId output : graph_.nodes[i].outputs) {
        maker_[output] = static_cast<int>(i);
      }
    }
  }

 private:
  /// The call that computes a value, if its op is named so.
  Node* maker(ValueId value, std::string_view op) {
    const int index = maker_[value];
    if (index < 0) return nullptr;
    Node& node = graph_.nodes[static_cast<size_t>(index)];
    return node.op().name == op ? &node : nullptr;
  }

  /// relu_grad(max_pool2d_grad(x, y, g), x) is max_pool2d_grad(x, y, relu_grad(g, y)): where a
  /// window's gradient goes, x is y.
  void move_up_relu_grad(size_t index) {
    Node& relu = graph_.nodes[index];
    if (relu.op().name != "relu_grad" && relu.op().name != "relu6_grad") return;
    const ValueId whole = relu.inputs[0];
    Node* pool = maker(whole, "max_pool2d_grad");
    if (pool == nullptr || relu.inputs[1] != pool->inputs[0]) return;
    if (uses_.of(whole).size() != 1) return;
    const ValueId y = pool->inputs[1];
    const ValueId g = pool->inputs[2];
    const ValueId small = graph_.add_value({.type = graph_.at(g).type});
    maker_.push_back(maker_[whole]);
    Node narrow = relu;
    graph_.set_input(narrow, 0, g);
    graph_.set_input(narrow, 1, y);
    narrow.outputs = {small};
    narrow.signature.outputs = {graph_.at(small).type};
    Node wide = *pool;
    graph_.set_input(wide, 2, small);
    wide.outputs = relu.outputs;
    *pool = std::move(narrow);
    relu = std::move(wide);
  }

  /// A sum over height and width of the image is the sum over the windows.
  void sum_windows(Node& node) {
    if (node.op().name != "reduce") return;
    const op::Attrs& attrs = node.signature.attrs;
    if (attrs.get<int64_t>("scale") != static_cast<int64_t>(ops::Scale::none)) return;
    const auto& axes = attrs.get<ops::Axes>("axes");
    if (!ops::contains(axes, 1) || !ops::contains(axes, 2)) return;
    for (const char* op : {"max_pool2d_grad", "avg_pool2d_grad"}) {
      if (const Node* pool = maker(node.inputs[0], op))
        graph_.set_input(node, 0, pool->inputs.back());
    }
  }

  Graph& graph_;
  ValueMap<int> maker_;  // The node that computes each value; -1 where none does.
  const Uses uses_;      // The uses of each value in the graph as it was.
};

}  // namespace

void shrink_pool_gradients(Graph& graph) { Shrinker(graph).run(); }

}  // namespace tandem::graph
