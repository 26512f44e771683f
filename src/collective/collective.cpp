#include "collective/collective.h"

#include <fmt/format.h>

#include "graph/trace.h"
#include "op/apply.h"
#include "op/registry.h"
#include "tandem/error.h"

namespace tandem::collective {

namespace {

/// The attribute of a sum with SumGradient::same; others have none.
op::Attrs same_gradient() { return {{"same_gradient", true}}; }

op::TensorTypes infer_same(const op::Signature& s) {
  for (const op::TensorType& type : s.inputs) {
    if (!type.shape.is_symbolic()) continue;
    throw InvalidArgument(fmt::format(
        "{}: a value {} follows the batch, whose parts differ between replicas; reduce it over "
        "its rows first",
        s.op->name, type.str()));
  }
  return s.inputs;
}

Tensors all_reduce_gradient(const op::Call& call, const Tensors& g) {
  // Replicas that compute the same from a sum have the same gradient of it, each for its own term.
  return call.attrs == same_gradient() ? g : all_reduce(g);
}

}  // namespace

void register_collectives(op::Registry& registry) {
  registry.add({.name = "all_reduce",
                .infer = infer_same,
                .split = op::split_chunks,
                .gradient = all_reduce_gradient,
                .in_place = true,
                .is_collective = true,
                .writes_peers = true});
  // Only ever made from an all_reduce by a pass, after gradients.
  registry.add({.name = "reduce_scatter",
                .infer = infer_same,
                .split = op::split_chunks,
                .no_gradient = true,
                .in_place = true,
                .is_collective = true});
  // The first replica's values, on each replica.
  registry.add({.name = "broadcast",
                .infer = infer_same,
                .split = op::split_chunks,
                .no_gradient = true,
                .in_place = true,
                .is_collective = true,
                .writes_peers = true});
  // What a sum or broadcast becomes between processes, by a pass: the sum over the replicas of this
  // process, with its first one; the exchange between the processes' first replicas, whole or its
  // start and its end; and the copy to the others of the process.
  for (const char* name : {"reduce_local", "exchange_sum", "exchange_start", "exchange_finish",
                           "exchange_broadcast", "spread_local"}) {
    registry.add({.name = name,
                  .infer = infer_same,
                  .split = op::split_chunks,
                  .no_gradient = true,
                  .in_place = true,
                  .is_collective = true,
                  .writes_peers = true});
  }
  // The sum of the squares of a replica's share of this process's part. Only ever made by a pass.
  registry.add({.name = "square_sum_of_part",
                .infer = [](const op::Signature& s) -> op::TensorTypes {
                  return {{s.inputs[0].dtype, Shape{}}};
                },
                .split = op::split_none,
                .no_gradient = true,
                .depends_on_run = true});
  // Every process's part of some variables goes to all. Only ever made by a pass.
  registry.add({.name = "exchange_gather",
                .infer = [](const op::Signature&) -> op::TensorTypes { return {}; },
                .split = op::split_none,
                .no_gradient = true,
                .writes_ranges = true,
                .is_collective = true});
  registry.add({.name = "global_rows",
                .infer = [](const op::Signature&) -> op::TensorTypes {
                  return {{DType::float64, Shape{}}};
                },
                .split = op::split_none,
                .no_gradient = true,
                .depends_on_run = true});
  registry.add({.name = "replica_id",
                .infer = [](const op::Signature&) -> op::TensorTypes {
                  return {{DType::int32, Shape{}}};
                },
                .split = op::split_none,
                .no_gradient = true,
                .depends_on_run = true});
}

Tensor replica_id() {
  static const op::OpDef& def = op::find_op("replica_id");
  return group_size() == 1 ? Tensor(int32_t{0}) : op::apply_one(def, {});
}

Tensor global_rows() {
  static const op::OpDef& def = op::find_op("global_rows");
  return op::apply_one(def, {});
}

int group_size(Axis) {
  const graph::Trace* trace = graph::Trace::current();
  return trace == nullptr ? 1 : trace->replicas();
}

Tensors all_reduce(const Tensors& values, Axis axis, SumGradient gradient) {
  static const op::OpDef& def = op::find_op("all_reduce");
  if (group_size(axis) == 1) return values;
  return op::apply(def, values, gradient == SumGradient::same ? same_gradient() : op::Attrs());
}

}  // namespace tandem::collective
