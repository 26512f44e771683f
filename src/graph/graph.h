/// A traced function: values, and the calls of ops that compute them, in the order of the trace. A
/// value's shape may follow the batch (see Shape); everything else is fixed.
#pragma once

#include <vector>

#include "op/apply.h"

namespace tandem::graph {

struct Value {
  enum class Source {
    argument,  ///< Of the function.
    constant,  ///< A tensor that existed when the function was traced.
    range,     ///< Part of a variable store, read and written in place.
    node,      ///< The output of a call.
    alias,     ///< Another value's memory with another shape.
  };

  Source source = Source::node;
  op::TensorType type;
  Tensor constant{};
  StoreRange range{};
  int alias_of = -1;
};

struct Node {
  op::Signature signature;
  std::vector<int> inputs;
  std::vector<int> outputs;
  std::vector<int> ranges;

  const op::OpDef& op() const { return *signature.op; }
};

struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<int> arguments;
  std::vector<int> results;

  int add_value(Value value);

  /// The value whose memory `value` lies in.
  int storage_of(int value) const;

  const Value& at(int value) const { return values[static_cast<size_t>(value)]; }
};

}  // namespace tandem::graph
