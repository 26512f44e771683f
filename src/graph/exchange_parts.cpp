// Where replicas are in processes of their own, what they have in parts is summed by exchanges.
// Sums that wait for the update are one exchange. What a process has updated of a variable that all
// have goes to the others. In a mesh of processes those along an axis exchange. Joins are
// exchanges, too, which begin early: see start_joins.cpp.
//
//   before   %8 = sum_to_part(dw)   %9 = sum_to_part(du)
//            adam_update(%8, %9, own parts of w and u)
//   after    %8, %9 = exchange_sum_to_part(dw, du)
//            adam_update(%8, %9, own parts of w and u)   exchange_gather(w, u)
#include <algorithm>
#include <map>

#include "graph/passes/passes.h"
#include "op/registry.h"
#include "op/update.h"

namespace tandem::graph {
namespace {

bool is_join(const Node& node) { return node.op().name == "join_parts"; }
bool is_sum_to_part(const Node& node) { return node.op().name == "sum_to_part"; }

/// True for parts along an axis of a variable, and false where its elements are cut in their order,
/// over all replicas.
bool are_parts_of_axis(const Node& node) {
  return node.signature.attrs.get<Shape>("part").rank() > 1;
}

Node call(const char* op, op::Attrs attrs) {
  Node node;
  node.signature.op = &op::find_op(op);
  node.signature.attrs = std::move(attrs);
  return node;
}

/// Puts exchanges in the place of sums of which each replica gets its part.
class PartSummer {
 public:
  PartSummer(Graph& graph, const Runners& runners) : graph_(graph), local_(runners.local) {}

  void run() {
    for (Node& node : graph_.nodes) {
      if (is_sum_to_part(node) && node.signature.attrs.get<bool>("waits")) {
        waiting_.push_back(std::move(node));
        continue;
      }
      if (uses_waiting(node)) exchange_waiting();
      if (is_sum_to_part(node)) {
        exchange({std::move(node)});
      } else {
        kept_.push_back(std::move(node));
      }
    }
    exchange_waiting();
    graph_.nodes = std::move(kept_);
  }

 private:
  bool uses_waiting(const Node& node) const {
    return std::ranges::any_of(waiting_, [&](const Node& sum) {
      return std::ranges::find(node.inputs, sum.outputs[0]) != node.inputs.end();
    });
  }

  void exchange_waiting() {
    if (!waiting_.empty()) exchange(std::exchange(waiting_, {}));
  }

  /// Adds one exchange for these sums, either all waiting or one alone that is made early.
  void exchange(const std::vector<Node>& sums) {
    const bool waits = sums[0].signature.attrs.get<bool>("waits");
    Node all = call("exchange_sum_to_part", {{"waits", waits}});
    for (const Node& sum : sums) {
      all.inputs.push_back(summed_locally(sum.inputs[0], !waits));
      all.outputs.push_back(sum.outputs[0]);
      all.signature.inputs.push_back(sum.signature.inputs[0]);
      all.signature.outputs.push_back(sum.signature.outputs[0]);
    }
    kept_.push_back(std::move(all));
  }

  /// The sum over the replicas of this process, with the first of them.
  ValueId summed_locally(ValueId value, bool early) {
    if (local_ == 1) return value;
    const op::TensorType type = graph_.at(value).type;
    Node sum = call("reduce_local", {{"replicas", int64_t{local_}}, {"early", early}});
    sum.inputs = {value};
    sum.outputs = {graph_.add_value({.type = type})};
    sum.signature.inputs = {type};
    sum.signature.outputs = {type};
    kept_.push_back(std::move(sum));
    return kept_.back().outputs[0];
  }

  Graph& graph_;
  const int local_;
  std::vector<Node> waiting_;  // Sums that nobody has used so far.
  std::vector<Node> kept_;
};

/// Behind an update of parts of variables that all processes have, adds the call that brings the
/// parts together.
class UpdateGatherer {
 public:
  explicit UpdateGatherer(Graph& graph) : graph_(graph) {}

  void run() {
    for (Node& node : graph_.nodes) {
      Node gather = call("exchange_gather", {});
      if (node.op().is_update) add_wholes(node, gather);
      kept_.push_back(std::move(node));
      if (!gather.ranges.empty()) kept_.push_back(std::move(gather));
    }
    graph_.nodes = std::move(kept_);
  }

 private:
  /// Such a variable is alone in its block, with room for equal parts.
  void add_wholes(const Node& update, Node& gather) {
    const op::UpdateLayout layout(update.signature);
    for (size_t v = 0; v < layout.variables(); ++v) {
      const StoreRange part = graph_.at(update.ranges[layout.variable(v)]).range;
      if (part.stride == 0 || part.block->parts() > 1) continue;
      const int64_t capacity = part.block->capacity();
      const op::TensorType type{part.block->dtype(), Shape{capacity}};
      gather.ranges.push_back(
          graph_.add_value({.source = Value::Source::range,
                            .type = type,
                            .range = {.block = part.block, .offset = 0, .count = capacity}}));
      gather.signature.ranges.push_back(type);
    }
  }

  Graph& graph_;
  std::vector<Node> kept_;
};

/// Where the axes of a mesh go over processes, what replicas do along an axis is an exchange of the
/// processes along it. What they do over all of them stays.
void exchange_along_axes(Graph& graph) {
  static const std::map<std::string, const char*> kExchanges{
      {"sum_over_model", "exchange_over_model"},
      {"sum_over_holders", "exchange_over_holders"},
      {"join_parts", "exchange_join_over_model"},
      {"sum_to_part", "exchange_sum_to_part_over_model"}};
  for (Node& node : graph.nodes) {
    const auto found = kExchanges.find(node.op().name);
    if (found == kExchanges.end()) continue;
    const bool has_parts = is_join(node) || is_sum_to_part(node);
    if (!has_parts || are_parts_of_axis(node)) node.signature.op = &op::find_op(found->second);
  }
}

bool is_along_axis(const Node& node) {
  return node.op().name == "sum_over_model" || node.op().name == "sum_over_holders";
}

}  // namespace

void exchange_parts(Graph& graph, const Runners& runners) {
  if (runners.along_model || std::ranges::any_of(graph.nodes, is_along_axis)) {
    exchange_along_axes(graph);
  }
  if (std::ranges::any_of(graph.nodes, is_sum_to_part)) PartSummer(graph, runners).run();
  UpdateGatherer(graph).run();
}

}  // namespace tandem::graph
