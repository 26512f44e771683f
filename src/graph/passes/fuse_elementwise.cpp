// Elementwise calls over one shape that follow each other become one call of the op `fused`, whose
// attribute is the expression that it computes (op/expression.h). Memory is read and written once
// instead of once for each call.
//
//   before   %3 = add(%1, %2)   %4 = relu(%3)   %5 = mul(%4, %1)
//   after    %5 = fused(%1, %2; expression=mul(relu(add(in0, in1)), in0))
//
// A group of calls is made where its last member stands. So it stays open for further members only
// until a call outside of it uses one of its results.
#include <algorithm>
#include <map>
#include <set>

#include "graph/passes/passes.h"
#include "graph/uses.h"
#include "op/expression.h"
#include "op/registry.h"

namespace tandem::graph {
namespace {

using op::Expression;

constexpr size_t kMostCalls = 32;
constexpr size_t kMostInputs = 12;

bool is_fusible(const Node& node) {
  if (!node.op().pointwise) return false;
  const DType dtype = node.signature.outputs[0].dtype;
  return dtype == DType::float32 || dtype == DType::float64;
}

/// Elementwise calls over one shape that will be one call, made where the last of them stands.
struct FusionSet {
  op::TensorType type;
  std::vector<size_t> members;  // Nodes, in order.
  std::set<ValueId> inputs;     // Values from outside.
  bool open = true;             // Nobody outside has used a member's result yet.
};

class ElementwiseFuser {
 public:
  explicit ElementwiseFuser(Graph& graph)
      : graph_(graph), uses_(graph), group_of_(graph.values.size(), -1) {}

  void run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) visit(i);
    rebuild();
  }

 private:
  int& group_of(ValueId value) { return group_of_[graph_.storage_of(value)]; }

  void visit(size_t index) {
    const Node& node = graph_.nodes[index];
    const int joined = is_fusible(node) ? join(index) : -1;
    // Whoever uses a result of a group that it is not part of must come after all of the group.
    for (ValueId input : node.inputs) {
      const int group = group_of(input);
      if (group >= 0 && group != joined) groups_[static_cast<size_t>(group)].open = false;
    }
    if (joined >= 0) group_of(node.outputs[0]) = joined;
  }

  /// The group that a node becomes a member of: that of its operands if there is room, else a new
  /// one.
  int join(size_t index) {
    const Node& node = graph_.nodes[index];
    const op::TensorType& type = node.signature.outputs[0];
    // A view of another shape is a use like any other: it must come after all of the group.
    const auto is_used_by_view = [&](int candidate) {
      return std::ranges::any_of(node.inputs, [&](ValueId input) {
        return group_of(input) == candidate && graph_.at(input).type != type;
      });
    };
    int joined = -1;
    for (ValueId input : node.inputs) {
      const int candidate = group_of(input);
      if (candidate < 0 || candidate == joined) continue;
      const FusionSet& group = groups_[static_cast<size_t>(candidate)];
      if (!group.open || group.type != type || is_used_by_view(candidate)) continue;
      if (joined < 0) {
        if (fits(group, node)) joined = candidate;
      } else if (can_merge(joined, candidate)) {
        merge(joined, candidate);
      }
    }
    if (joined < 0) {
      joined = static_cast<int>(groups_.size());
      groups_.push_back({type, {}, {}, true});
    }
    FusionSet& group = groups_[static_cast<size_t>(joined)];
    group.members.push_back(index);
    for (ValueId input : node.inputs) {
      if (group_of(input) != joined) group.inputs.insert(input);
    }
    return joined;
  }

  static bool fits(const FusionSet& group, const Node& node) {
    return group.members.size() < kMostCalls &&
           group.inputs.size() + node.inputs.size() <= kMostInputs;
  }

  bool can_merge(int a, int b) const {
    const FusionSet& x = groups_[static_cast<size_t>(a)];
    const FusionSet& y = groups_[static_cast<size_t>(b)];
    return x.members.size() + y.members.size() < kMostCalls &&
           x.inputs.size() + y.inputs.size() + 2 <= kMostInputs;
  }

  void merge(int into, int from) {
    FusionSet& target = groups_[static_cast<size_t>(into)];
    FusionSet& source = groups_[static_cast<size_t>(from)];
    for (size_t member : source.members) group_of(graph_.nodes[member].outputs[0]) = into;
    target.members.insert(target.members.end(), source.members.begin(), source.members.end());
    std::ranges::sort(target.members);
    target.inputs.insert(source.inputs.begin(), source.inputs.end());
    source = {.type = {}, .members = {}, .inputs = {}, .open = false};
  }

  /// The nodes with each group of more than one member replaced by one call.
  void rebuild() {
    std::map<size_t, const FusionSet*> made_at;  // The groups, by their last member.
    std::set<size_t> gone;
    for (const FusionSet& group : groups_) {
      if (group.members.size() < 2) continue;
      made_at[group.members.back()] = &group;
      gone.insert(group.members.begin(), group.members.end());
    }
    if (gone.empty()) return;
    std::vector<Node> nodes;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (const auto group = made_at.find(i); group != made_at.end()) {
        nodes.push_back(fused(*group->second));
      } else if (!gone.contains(i)) {
        nodes.push_back(graph_.nodes[i]);
      }
    }
    graph_.nodes = std::move(nodes);
  }

  Node fused(const FusionSet& group) {
    const std::set<size_t> members(group.members.begin(), group.members.end());
    std::map<ValueId, int> call_of;  // The call that computes each value, by the value's storage.
    auto expression = std::make_shared<Expression>();
    ValueIds inputs = ordered_inputs(group);
    expression->inputs = static_cast<int>(inputs.size());
    const auto operand_of = [&](ValueId value) {
      const auto step = call_of.find(graph_.storage_of(value));
      if (step != call_of.end() && graph_.at(value).type == group.type) {
        return expression->inputs + step->second;
      }
      return static_cast<int>(std::ranges::find(inputs, value) - inputs.begin());
    };
    Node node;
    for (size_t member : group.members) {
      const Node& call = graph_.nodes[member];
      Expression::Call step{&call.op(), {}, call.signature.attrs};
      for (ValueId input : call.inputs) step.operands.push_back(operand_of(input));
      const int index = static_cast<int>(expression->calls.size());
      call_of[call.outputs[0]] = index;
      expression->calls.push_back(std::move(step));
      if (is_used_outside(call.outputs[0], members)) {
        expression->outputs.push_back(index);
        node.outputs.push_back(call.outputs[0]);
        node.signature.outputs.push_back(call.signature.outputs[0]);
      }
    }
    node.inputs = std::move(inputs);
    for (ValueId input : node.inputs) node.signature.inputs.push_back(graph_.at(input).type);
    node.signature.op = &op::find_op("fused");
    node.signature.attrs = {{"expression", op::ExpressionPtr(std::move(expression))}};
    return node;
  }

  /// The inputs, those of the result's own size first: the result may be written in their place.
  ValueIds ordered_inputs(const FusionSet& group) const {
    ValueIds inputs(group.inputs.begin(), group.inputs.end());
    std::stable_partition(inputs.begin(), inputs.end(),
                          [&](ValueId v) { return graph_.at(v).type == group.type; });
    return inputs;
  }

  bool is_used_outside(ValueId value, const std::set<size_t>& members) const {
    return std::ranges::any_of(uses_.of(value), [&](const Use& use) {
      return !members.contains(use.call) || graph_.at(use.value).type != graph_.at(value).type;
    });
  }

  Graph& graph_;
  const Uses uses_;
  ValueMap<int> group_of_;  // The group of each value, or -1.
  std::vector<FusionSet> groups_;
};

}  // namespace

void fuse_elementwise(Graph& graph) { ElementwiseFuser(graph).run(); }

}  // namespace tandem::graph
