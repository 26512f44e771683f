/// A traced function: values, and the calls of ops that compute them, in the order of the trace. A
/// value's shape may follow the batch (see Shape); everything else is fixed.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "device/logical_device.h"
#include "graph/value_id.h"
#include "op/apply.h"

namespace tandem::graph {

struct Value {
  enum class Source {
    argument,  ///< An argument of the function.
    constant,  ///< A tensor that existed when the function was traced.
    range,     ///< Part of a variable store, read and written in place.
    node,      ///< The output of a call.
    alias,     ///< Another value's memory with another shape.
  };

  Source source = Source::node;
  op::TensorType type;
  Tensor constant{};
  StoreRange range{};
  ValueId alias_of = kNoValue;
};

struct Region;

/// Passes that weigh memory do so for this many rows, though what they decide holds for any number;
/// values from this size on are worth their while.
inline constexpr int64_t kNominalRows = 128;
inline constexpr size_t kLargeBytes = 64 << 10;

struct Node {
  op::Signature signature;
  ValueIds inputs{};
  ValueIds outputs{};
  ValueIds ranges{};
  /// The device that a scope inside the function asks for; else null.
  devices::DevicePtr device{};
  /// A value that it is computed beside, where nothing else says where.
  ValueId near = kNoValue;
  int random_call = 0;  ///< Which random call of its trace it is.
  /// The regions of control flow: see control_flow.h.
  std::vector<std::shared_ptr<const Region>> regions{};

  const op::OpDef& op() const { return *signature.op; }
};

struct Graph {
  ValueMap<Value> values;
  std::vector<Node> nodes;
  ValueIds arguments;
  ValueIds results;
  std::optional<int64_t> rows{};  ///< The only number of rows that it holds for, if it was read.
  /// The random calls of its trace, those that passes remove included.
  uint64_t random_calls = 0;

  ValueId add_value(Value value);

  /// Gives a node another input, with its type.
  void set_input(Node& node, size_t index, ValueId value) const;

  /// The value whose memory `value` lies in.
  ValueId storage_of(ValueId value) const;

  const Value& at(ValueId value) const { return values[value]; }
  Value& at(ValueId value) { return values[value]; }
};

/// Part of a control flow node: a branch, a condition, a body. Its arguments are inputs of the
/// node, its results are outputs of the node.
struct Region {
  Graph graph;
  std::vector<int> inputs;  ///< For each argument of the graph, which input of the node it is.
};

/// Calls `visit` with each node of the graph and of the regions inside.
void for_each_node(const Graph& graph, const std::function<void(const Node&)>& visit);

}  // namespace tandem::graph
