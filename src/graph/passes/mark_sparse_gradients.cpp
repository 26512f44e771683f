// Max pooling passes the gradient of each window on to one place of the window, so the gradient
// that the convolution before it gets is mostly zero. This pass writes on the convolution's
// backward calls which share of the gradient is not zero. The kernel multiplies only that share
// where it is small.
//
//   before   %9 = max_pool2d_grad(y, p, g)   %10 = conv2d_backprop_filter(x, %9)
//   after    %9 = max_pool2d_grad(y, p, g)   %10 = conv2d_backprop_filter(x, %9; density=0.25)
//
// It comes after shrink_pool_gradients, which moves relu's gradient from between the two.
#include <algorithm>

#include "graph/passes/passes.h"
#include "ops/convolution/window.h"

namespace tandem::graph {
namespace {

/// The largest share of elements that are not zero in what max pooling's gradient leaves: one for
/// each window.
double density_of(const Node& pool) {
  const auto [down, right] = ops::window_of(pool.signature.attrs);
  const double windows = static_cast<double>(down.result * right.result);
  return std::min(1.0, windows / static_cast<double>(down.image * right.image));
}

}  // namespace

void mark_sparse_gradients(Graph& graph) {
  ValueMap<double> density(graph.values.size(), 1.0);
  for (Node& node : graph.nodes) {
    const std::string& op = node.op().name;
    if (op == "max_pool2d_grad") {
      density[node.outputs[0]] = density_of(node);
    } else if (op == "conv2d_backprop_input" || op == "conv2d_backprop_filter") {
      const double share = density[node.inputs[1]];
      node.signature.attrs = node.signature.attrs.with("density", share);
    }
  }
}

}  // namespace tandem::graph
