#include "collective/collective.h"

#include <fmt/format.h>

#include "collective/parts.h"
#include "graph/trace.h"
#include "op/apply.h"
#include "op/registry.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem::collective {

namespace {

/// The attribute of a sum with SumGradient::same; others have none.
op::Attrs same_gradient() { return {{"same_gradient", true}}; }

op::TensorTypes infer_each(const op::Signature& s) { return s.inputs; }

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

Tensors model_sum_gradient(const op::Call&, const Tensors& g) { return all_reduce(g, Axis::model); }

}  // namespace

void register_collectives(op::Registry& registry) {
  register_parts(registry);
  // Attribute "model": so many neighbours meet. They share the elements out in a way of their own,
  // so no input is aligned. "program": so many replicas run the program, where these are not all,
  // as those of a micro-batch; else 0.
  registry.add({.name = "sum_over_model",
                .infer = infer_each,
                .split = op::split_none,
                .gradient = model_sum_gradient,
                .is_collective = true,
                .writes_peers = true});
  // Attribute "parts": those that have the same one of so many parts meet.
  registry.add({.name = "sum_over_holders",
                .infer = infer_same,
                .split = op::split_none,
                .no_gradient = true,
                .is_collective = true,
                .writes_peers = true});
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
  // What sums along an axis of a mesh become where the axis goes over processes. Only ever made by
  // a pass.
  registry.add({.name = "exchange_over_model",
                .infer = infer_each,
                .split = op::split_none,
                .no_gradient = true,
                .is_collective = true});
  registry.add({.name = "exchange_over_holders",
                .infer = infer_same,
                .split = op::split_none,
                .no_gradient = true,
                .is_collective = true});
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
  const Tensor rows = op::apply_one(def, {});
  const int model = group_size(Axis::model);
  return model == 1 ? rows : rows * static_cast<double>(model);
}

int group_size(Axis axis) {
  const graph::Trace* trace = graph::Trace::current();
  if (trace == nullptr) return 1;
  return axis == Axis::all ? trace->replicas() : trace->model();
}

Tensors all_reduce(const Tensors& values, Axis axis, SumGradient gradient) {
  static const op::OpDef& def = op::find_op("all_reduce");
  static const op::OpDef& model_sum = op::find_op("sum_over_model");
  const int size = group_size(axis);
  if (size == 1) return values;
  if (axis == Axis::model) {
    const graph::Trace::PartsScope of_parts;
    if (gradient == SumGradient::same) {
      throw Unimplemented("all_reduce along Axis::model with SumGradient::same");
    }
    return op::apply(model_sum, values, {{"model", int64_t{size}}, {"program", int64_t{0}}});
  }
  return op::apply(def, values, gradient == SumGradient::same ? same_gradient() : op::Attrs());
}

namespace {

/// Micro-batches are summed by other means than the replicas of each of them.
bool is_in_time() {
  const graph::Trace* trace = graph::Trace::current();
  return trace != nullptr && trace->is_in_time();
}

}  // namespace

Tensor sum_over_parts(const Tensor& value, int parts) {
  static const op::OpDef& model_sum = op::find_op("sum_over_model");
  if (parts == 1) return value;
  if (is_in_time()) {
    return op::apply_one(model_sum, {value}, {{"model", int64_t{parts}}, {"program", int64_t{0}}});
  }
  return all_reduce({value}, parts == group_size() ? Axis::all : Axis::model)[0];
}

Tensors sum_over_holders(const Tensors& values, int parts) {
  static const op::OpDef& def = op::find_op("sum_over_holders");
  const bool is_alone = group_size() <= parts && !is_in_time();
  if (is_alone || values.empty()) return values;
  return op::apply(def, values, {{"parts", int64_t{parts}}});
}

}  // namespace tandem::collective
