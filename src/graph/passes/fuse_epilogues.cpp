// What follows a matrix product or a convolution, and works on its result element by element,
// becomes part of the call: the kernel does it while the result is still in the cache. First comes
// a bias, then any functions of one element; after a product also one call with a companion, a
// value of the result's own type (a residual, a slope). In the expression, in0 is the product.
//
//   before   %3 = matmul(x, w)   %4 = add(%3, b)   %5 = relu(%4)   %6 = add(%5, %1)
//   after    %6 = fused_matmul(x, w, b, %1; epilogue=add(relu(add(in0, in1)), in2))
//
// A step is taken in only if nobody else uses the value before it: that value is never stored.
#include <algorithm>
#include <map>
#include <optional>

#include "graph/passes/passes.h"
#include "graph/uses.h"
#include "op/expression.h"
#include "op/registry.h"

namespace tandem::graph {
namespace {

using op::Expression;

/// The op that computes a product and then the rest, or null.
const op::OpDef* with_epilogue(const Node& node) {
  const std::string& name = node.op().name;
  if (name == "matmul") return &op::find_op("fused_matmul");
  if (name == "conv2d") return &op::find_op("fused_conv2d");
  return nullptr;
}

class EpilogueFuser {
 public:
  explicit EpilogueFuser(Graph& graph)
      : graph_(graph), uses_(graph), made_before_(graph.values.size(), 0) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (ValueId output : graph.nodes[i].outputs) made_before_[output] = i + 1;
    }
  }

  void run() {
    std::map<size_t, Node> made_at;
    std::vector<bool> gone(graph_.nodes.size(), false);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const op::OpDef* fused = with_epilogue(graph_.nodes[i]);
      if (fused == nullptr) continue;
      Node node = graph_.nodes[i];
      const std::vector<size_t> members = absorb(node, i);
      if (members.size() == 1) continue;
      node.signature.op = fused;
      for (size_t member : members) gone[member] = true;
      // The call is made where the last member stands: there all operands exist.
      made_at.emplace(members.back(), std::move(node));
    }
    std::vector<Node> nodes;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (const auto made = made_at.find(i); made != made_at.end()) {
        nodes.push_back(std::move(made->second));
      } else if (!gone[i]) {
        nodes.push_back(std::move(graph_.nodes[i]));
      }
    }
    graph_.nodes = std::move(nodes);
  }

 private:
  /// Gives a product the bias that follows it, then functions and a companion, and returns the
  /// calls that it stands for.
  std::vector<size_t> absorb(Node& product, size_t index) {
    constexpr int kSoFar = -1;  // The result of the calls so far; its number is not known yet.
    auto epilogue = std::make_shared<Expression>();
    epilogue->inputs = 1;
    std::vector<size_t> members{index};
    const auto add_input = [&](ValueId value) {
      product.inputs.push_back(value);
      product.signature.inputs.push_back(graph_.at(value).type);
      return epilogue->inputs++;
    };
    const auto take = [&](size_t user, std::vector<int> operands) {
      const Node& call = graph_.nodes[user];
      epilogue->calls.push_back({&call.op(), std::move(operands), call.signature.attrs});
      product.outputs = call.outputs;
      members.push_back(user);
    };
    if (const auto user = only_user(product.outputs[0])) {
      const ValueId bias = bias_of(graph_.nodes[*user], product.outputs[0]);
      if (bias != kNoValue) take(*user, {kSoFar, add_input(bias)});
    }
    bool has_companion = false;
    while (const auto user = only_user(product.outputs[0])) {
      const Node& call = graph_.nodes[*user];
      if (call.op().pointwise && call.inputs.size() == 1) {
        take(*user, {kSoFar});
      } else if (const auto side = side_of_companion(product, index, call);
                 side && !has_companion) {
        has_companion = true;
        const int companion = add_input(call.inputs[*side]);
        take(*user, *side == 0 ? std::vector{companion, kSoFar} : std::vector{kSoFar, companion});
      } else {
        break;
      }
    }
    int so_far = 0;
    for (size_t i = 0; i < epilogue->calls.size(); ++i) {
      std::ranges::replace(epilogue->calls[i].operands, kSoFar, so_far);
      so_far = epilogue->inputs + static_cast<int>(i);
    }
    epilogue->outputs = {static_cast<int>(epilogue->calls.size()) - 1};
    product.signature.attrs =
        product.signature.attrs.with("epilogue", op::ExpressionPtr(std::move(epilogue)));
    return members;
  }

  /// The one call that uses a value, once and as it is.
  std::optional<size_t> only_user(ValueId value) const {
    const std::vector<Use>& uses = uses_.of(value);
    if (uses.size() != 1 || uses[0].is_result() || uses[0].value != value) return {};
    return uses[0].call;
  }

  /// The value that an addition adds to each row of `rows`, or kNoValue.
  ValueId bias_of(const Node& node, ValueId rows) const {
    if (node.op().name != "add") return kNoValue;
    const ValueId bias = node.inputs[node.inputs[0] == rows ? 1 : 0];
    const Shape& shape = graph_.at(rows).type.shape;
    const Shape& row = graph_.at(bias).type.shape;
    const bool fits = row.rank() == 1 && row.extent(0) == shape.extent(shape.rank() - 1);
    return fits ? bias : kNoValue;
  }

  /// Which operand of a call on a product's result is a value of the same type that was there
  /// before the product. So of two products that are added the second takes in the sum, and neither
  /// moves.
  std::optional<size_t> side_of_companion(const Node& product, size_t index,
                                          const Node& call) const {
    if (product.op().name != "matmul" || !call.op().pointwise || call.inputs.size() != 2) return {};
    const ValueId result = product.outputs[0];
    const size_t side = call.inputs[0] == result ? 1 : 0;
    const ValueId companion = call.inputs[side];
    if (graph_.at(companion).type != graph_.at(result).type) return {};
    if (graph_.at(call.outputs[0]).type != graph_.at(result).type) return {};
    const bool made_before = made_before_[graph_.storage_of(companion)] <= index;
    return made_before ? std::optional(side) : std::nullopt;
  }

  Graph& graph_;
  const Uses uses_;
  // The number of the first call that may use each value.
  ValueMap<size_t> made_before_;
};

}  // namespace

void fuse_epilogues(Graph& graph) { EpilogueFuser(graph).run(); }

}  // namespace tandem::graph
