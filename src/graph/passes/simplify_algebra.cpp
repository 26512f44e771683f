// Bypasses calls whose result is there already: a sum with 0, a product with 1, a reshape to the
// same shape, two transposes that undo each other. And a number or a row that is repeated only to
// meet a larger operand is not repeated, because the kernel of the larger call repeats it for
// nothing.
//
//   before   %2 = add(%1, 0)   %3 = broadcast_to(b)   %4 = mul(%2, %3)
//   after                                             %4 = mul(%1, b)
//
// The calls that are bypassed stay in the graph until remove_dead_code.
#include <cmath>
#include <optional>
#include <unordered_map>

#include "graph/passes/passes.h"
#include "graph/passes/replacements.h"
#include "op/registry.h"
#include "ops/reduction/reduction_rules.h"
#include "tandem/ops.h"

namespace tandem::graph {
namespace {

class Simplifier {
 public:
  explicit Simplifier(Graph& graph)
      : graph_(graph), replaced_(graph), maker_(graph.values.size(), -1) {}

  void run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node& node = graph_.nodes[i];
      replaced_.update(node);
      shrink_operands(node);
      if (const auto same = equal_value(node)) replaced_.replace(node.outputs[0], *same);
      for (ValueId output : node.outputs) maker_[output] = static_cast<int>(i);
    }
    replaced_.finish();
  }

 private:
  const op::TensorType& type(ValueId value) const { return graph_.at(value).type; }

  /// The call that computes a value, if its op is named so.
  const Node* maker(ValueId value, std::string_view op) const {
    if (!maker_.contains(value)) return nullptr;
    const int index = maker_[value];
    if (index < 0) return nullptr;
    const Node& node = graph_.nodes[static_cast<size_t>(index)];
    return node.op().name == op ? &node : nullptr;
  }

  /// The number that every element of a value is.
  std::optional<double> number(ValueId value) const {
    if (const Node* fill = maker(value, "fill")) return fill->signature.attrs.get<double>("value");
    const Value& v = graph_.at(value);
    if (v.source != Value::Source::constant || v.type.shape.total_extent() != 1) return {};
    return cast(v.constant, DType::float64).item<double>();
  }

  /// Values that are repeated only because the other side is larger need not be repeated before.
  void shrink_operands(Node& node) {
    const std::string& op = node.op().name;
    if (op != "add" && op != "sub" && op != "mul" && op != "div") return;
    for (size_t side : {0, 1}) {
      const ValueId other = node.inputs[1 - side];
      if (type(other).shape != type(node.outputs[0]).shape) continue;
      if (const Node* fill = maker(node.inputs[side], "fill")) {
        if (type(node.inputs[side]).shape.rank() > 0) {
          graph_.set_input(node, side, scalar(*fill));
        }
      } else if (const Node* repeat = maker(node.inputs[side], "broadcast_to")) {
        const auto scale = static_cast<ops::Scale>(repeat->signature.attrs.get<int64_t>("scale"));
        if (scale == ops::Scale::none) graph_.set_input(node, side, repeat->inputs[0]);
      }
    }
  }

  ValueId scalar(const Node& fill) {
    const auto [known, is_new] = scalars_.try_emplace(fill.outputs[0], kNoValue);
    if (is_new) {
      const DType dtype = fill.signature.outputs[0].dtype;
      known->second = graph_.add_value(
          {.source = Value::Source::constant,
           .type = {dtype, {}},
           .constant = tandem::fill({}, fill.signature.attrs.get<double>("value"), dtype)});
    }
    return known->second;
  }

  /// A value that is there already and equals the node's result.
  std::optional<ValueId> equal_value(const Node& node) const {
    if (node.inputs.empty() || node.outputs.size() != 1) return {};
    const std::string& op = node.op().name;
    const ValueId first = node.inputs[0];
    const bool first_fits = type(first) == type(node.outputs[0]);
    if (op == "add" || op == "mul") {
      const double neutral = op == "add" ? 0.0 : 1.0;
      const ValueId second = node.inputs[1];
      if (first_fits && number(second) == neutral) return first;
      if (type(second) == type(node.outputs[0]) && number(first) == neutral) return second;
    }
    if (first_fits && op == "sub" && number(node.inputs[1]) == 0.0) return first;
    if (first_fits && op == "div" && number(node.inputs[1]) == 1.0) return first;
    if (first_fits && (op == "reshape" || op == "identity" || op == "stop_gradient")) return first;
    if (first_fits && op == "broadcast_to" &&
        node.signature.attrs.get<int64_t>("scale") == static_cast<int64_t>(ops::Scale::none)) {
      return first;
    }
    if (op == "neg") {
      if (const Node* inner = maker(first, "neg")) return inner->inputs[0];
    }
    if (op == "transpose") {
      if (const Node* inner = maker(first, "transpose")) {
        if (type(inner->inputs[0]) == type(node.outputs[0]) && undo_each_other(*inner, node)) {
          return inner->inputs[0];
        }
      }
    }
    return {};
  }

  static bool undo_each_other(const Node& a, const Node& b) {
    const auto& first = a.signature.attrs.get<std::vector<int64_t>>("permutation");
    const auto& second = b.signature.attrs.get<std::vector<int64_t>>("permutation");
    for (size_t axis = 0; axis < second.size(); ++axis) {
      if (first[static_cast<size_t>(second[axis])] != static_cast<int64_t>(axis)) return false;
    }
    return true;
  }

  Graph& graph_;
  Replacements replaced_;
  ValueMap<int> maker_;  // The node that computes each value; -1 where none does.
  // The scalar that stands for the result of a fill.
  std::unordered_map<ValueId, ValueId> scalars_;
};

}  // namespace

void simplify_algebra(Graph& graph) { Simplifier(graph).run(); }

}  // namespace tandem::graph
