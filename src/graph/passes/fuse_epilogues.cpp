#include <algorithm>
#include <map>
#include <optional>

#include "graph/passes/passes.h"
#include "graph/passes/uses.h"
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

class Fuser {
 public:
  explicit Fuser(Graph& graph) : graph_(graph), uses_(graph) {}

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
      // Where the last of them stands all operands are there.
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
  /// Gives a product the bias and the function that follow it, and returns the calls that it stands
  /// for.
  std::vector<size_t> absorb(Node& product, size_t index) {
    auto epilogue = std::make_shared<Expression>();
    epilogue->inputs = 1;
    std::vector<size_t> members{index};
    const auto take = [&](size_t user, std::vector<int> operands) {
      const Node& call = graph_.nodes[user];
      epilogue->steps.push_back({&call.op(), std::move(operands), call.signature.attrs});
      product.outputs = call.outputs;
      members.push_back(user);
    };
    if (const auto user = only_user(product.outputs[0])) {
      if (const int bias = bias_of(graph_.nodes[*user], product.outputs[0]); bias >= 0) {
        epilogue->inputs = 2;
        product.inputs.push_back(bias);
        product.signature.inputs.push_back(graph_.at(bias).type);
        take(*user, {0, 1});
      }
    }
    if (const auto user = only_user(product.outputs[0])) {
      const Node& call = graph_.nodes[*user];
      const int before = epilogue->steps.empty() ? 0 : epilogue->inputs;
      if (call.op().pointwise && call.inputs.size() == 1) take(*user, {before});
    }
    epilogue->outputs = {static_cast<int>(epilogue->steps.size()) - 1};
    product.signature.attrs =
        product.signature.attrs.with("epilogue", op::ExpressionPtr(std::move(epilogue)));
    return members;
  }

  /// The one call that uses a value, once and as it is.
  std::optional<size_t> only_user(int value) const {
    const std::vector<size_t>& users = uses_.of(value);
    if (users.size() != 1 || users[0] == Uses::kResult) return {};
    const Node& node = graph_.nodes[users[0]];
    if (std::ranges::find(node.inputs, value) == node.inputs.end()) return {};  // A view of it.
    return users[0];
  }

  /// The value that an addition adds to each row of `rows`, or -1.
  int bias_of(const Node& node, int rows) const {
    if (node.op().name != "add") return -1;
    const int bias = node.inputs[node.inputs[0] == rows ? 1 : 0];
    const Shape& shape = graph_.at(rows).type.shape;
    const Shape& row = graph_.at(bias).type.shape;
    const bool fits = row.rank() == 1 && row[0] == shape[shape.rank() - 1];
    return fits ? bias : -1;
  }

  Graph& graph_;
  const Uses uses_;
};

}  // namespace

void fuse_epilogues(Graph& graph) { Fuser(graph).run(); }

}  // namespace tandem::graph
