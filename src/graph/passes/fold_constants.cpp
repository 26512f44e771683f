// A call that depends on nothing but constants is made once, while the program is compiled, and its
// outputs become constants. Functions often compute with numbers that never change: scales, masks,
// positions.
//
//   before   %1 = fill(64)   %2 = sqrt(%1)   %3 = mul(x, %2)
//   after    %2 is a constant, 8             %3 = mul(x, %2)
#include <algorithm>

#include "graph/passes/passes.h"

namespace tandem::graph {
namespace {

/// A call of constants only, which gives the same for any batch and every time.
bool is_constant(const Graph& graph, const Node& node) {
  const auto constant = [&](ValueId input) {
    return graph.at(graph.storage_of(input)).source == Value::Source::constant &&
           graph.at(input).source != Value::Source::alias;
  };
  const auto fixed = [&](ValueId output) { return !graph.at(output).type.shape.is_symbolic(); };
  return node.regions.empty() && !node.op().depends_on_run && !node.op().has_effect() &&
         !node.op().is_collective && node.ranges.empty() &&
         std::ranges::all_of(node.inputs, constant) && std::ranges::all_of(node.outputs, fixed);
}

}  // namespace

void fold_constants(Graph& graph) {
  std::erase_if(graph.nodes, [&](const Node& node) {
    if (!is_constant(graph, node)) return false;
    Tensors inputs;
    for (ValueId input : node.inputs) inputs.push_back(graph.at(input).constant);
    const Tensors outputs = op::eager_interpreter().interpret(node.signature, inputs, {});
    for (size_t i = 0; i < outputs.size(); ++i) {
      Value& value = graph.at(node.outputs[i]);
      value.source = Value::Source::constant;
      value.constant = outputs[i];
    }
    return true;
  });
}

}  // namespace tandem::graph
