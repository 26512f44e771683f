// Where processes have the sums of gradients in parts, clipping must not ask for all of them. A sum
// of squares is then taken of this process's part, and the processes add theirs up.
//
//   before   %7 = all_reduce(dw)   %8 = square(%7)               %9 = reduce_sum(%8)
//   after    %7 = all_reduce(dw)   %8 = square_sum_of_part(%7)   %9 = all_reduce(%8)
//
// Replicas of one process take the squares of a share of its part each. A gradient that is there as
// a whole has parts as well, so it makes no difference which of them are.
#include <algorithm>
#include <map>

#include "graph/passes/passes.h"
#include "graph/summed_gradients.h"
#include "op/registry.h"

namespace tandem::graph {
namespace {

class NormTaker {
 public:
  NormTaker(Graph& graph, const Runners& runners)
      : graph_(graph), runners_(runners), is_summed_(graph.values.size(), false) {}

  void run() {
    for (Node& node : graph_.nodes) {
      note(node);
      const auto squared = is_whole_sum(node) ? squared_.find(node.inputs[0]) : squared_.end();
      if (squared == squared_.end()) {
        nodes_.push_back(std::move(node));
      } else {
        add_norm(squared->second, node.outputs[0]);
      }
    }
    graph_.nodes = std::move(nodes_);
    remove_dead_code(graph_);
  }

  /// The bytes of the sums that only updates and norms use.
  size_t bytes_in_parts() const {
    size_t bytes = 0;
    for (const Node& node : graph_.nodes) {
      if (node.op().name != "all_reduce") continue;
      for (ValueId output : node.outputs) {
        if (gradients_.contains(output)) bytes += graph_.at(output).type.bytes();
      }
    }
    return bytes;
  }

 private:
  /// Remembers sums of gradients, what is made of them element by element, and their squares.
  void note(const Node& node) {
    if (node.outputs.size() != 1 && node.op().name != "all_reduce") return;
    for (ValueId output : node.outputs) {
      if (!gradients_.contains(output)) continue;
      is_summed_[output] =
          node.op().name == "all_reduce" || std::ranges::any_of(node.inputs, [&](ValueId input) {
            return is_summed_[input] && maps_elements_of(graph_, node, input);
          });
    }
    if (node.op().name == "square" && is_summed_[node.inputs[0]]) {
      squared_[node.outputs[0]] = node.inputs[0];
    }
  }

  void add_norm(ValueId gradient, ValueId result) {
    const op::TensorType type = graph_.at(result).type;
    const ValueId own = graph_.add_value({.source = Value::Source::node, .type = type});
    const auto& group = runners_.group;
    Node squares = call("square_sum_of_part", gradient, own);
    squares.signature.attrs = {{"rank", int64_t{group ? group->rank() : 0}},
                               {"size", int64_t{group ? group->size() : 1}},
                               {"first", int64_t{runners_.first}},
                               {"replicas", int64_t{runners_.local}}};
    nodes_.push_back(std::move(squares));
    nodes_.push_back(call("all_reduce", own, result));
  }

  Node call(const char* op, ValueId input, ValueId output) const {
    Node node;
    node.signature.op = &op::find_op(op);
    node.signature.inputs = {graph_.at(input).type};
    node.signature.outputs = {graph_.at(output).type};
    node.inputs = {input};
    node.outputs = {output};
    return node;
  }

  Graph& graph_;
  const Runners& runners_;
  const SummedGradients gradients_{graph_, SummedGradients::WithNorms::yes};
  ValueMap<bool> is_summed_;
  std::map<ValueId, ValueId> squared_;  // What each square is of.
  std::vector<Node> nodes_;
};

}  // namespace

void take_norms_of_parts(Graph& graph, const Runners& runners) {
  NormTaker taker(graph, runners);
  if (!runners.single_threaded && taker.bytes_in_parts() >= runners.bucket_bytes) taker.run();
}

}  // namespace tandem::graph
