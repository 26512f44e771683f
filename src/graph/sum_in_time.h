/// A collective between micro-batches, which run one after another: each adds its value to a
/// variable, and who needs the sum reads that.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/exchange_depths.h"
#include "graph/graph.h"
#include "op/registry.h"
#include "tensor/store.h"

namespace tandem::graph {

struct SumInTime {
  Node add;
  Node read;  ///< Its output is that of the collective.
};

/// The calls in the place of value `index` of the collective `met`. The variable is a new one in
/// `store`; where it is cut, each replica has a sum of its own. Micro-batch `first` begins the sum.
/// So many `members` have each micro-batch's rows, and the same value, shares of it or parts of
/// one. Without a store it is another process's: the calls are not to be made here.
inline SumInTime sum_in_time(Graph& graph, const Node& met, size_t index,
                             const std::shared_ptr<Store>& store, const VariableCut& cut = {},
                             int first = 0, int members = 1) {
  const op::TensorType type = graph.at(met.inputs[index]).type;
  StoreRange range;
  if (store) {
    range = store->allocate("a sum over micro-batches", type.dtype, type.shape.count(), cut);
  }
  const ValueId sum =
      graph.add_value({.source = Value::Source::range, .type = type, .range = range});
  SumInTime calls;
  calls.add.signature = {.op = &op::find_op("accumulate"),
                         .inputs = {type},
                         .outputs = {},
                         .attrs = {{"first_only", is_broadcast(met)},
                                   {"first", int64_t{first}},
                                   {"members", int64_t{members}}},
                         .ranges = {type}};
  calls.add.inputs = {met.inputs[index]};
  calls.add.ranges = {sum};
  calls.read.signature = {.op = &op::find_op("read_variable"),
                          .inputs = {},
                          .outputs = {type},
                          .attrs = {},
                          .ranges = {type}};
  calls.read.outputs = {met.outputs[index]};
  calls.read.ranges = {sum};
  return calls;
}

}  // namespace tandem::graph
