// Two ops, each the other's gradient. take_part: one of equal parts of an axis. put_part: the
// reverse, a part at its place among zeros. Both have attributes "axis" and "parts", and as their
// second input the number of the part.
//
// And ops on values of which each replica has a part, one behind the other, as of variables that
// are cut (ops/variable_parts.h). join_parts: the whole, from all parts. Its gradient is
// sum_to_part: each gets its part of the sum over the replicas that have parts of the same whole.
// own_part: its part of a value that all have. read_parts: the whole, from ranges. Their attributes
// are "parts", how many; "whole" and "part", the shapes; "waits", of a sum_to_part that is not to
// be made as soon as it can be; and "program", how many replicas run the program, where these are
// not all, as those of a micro-batch; else 0. The last part may go past the end of the whole.
#include "collective/parts.h"

#include <fmt/format.h>

#include "collective/collective.h"
#include "op/apply.h"
#include "op/registry.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem::collective {
namespace {

int number(const op::Attrs& attrs, const char* name) {
  return static_cast<int>(attrs.get<int64_t>(name));
}

op::TensorTypes infer_take(const op::Signature& s) {
  const Shape& shape = s.inputs[0].shape;
  const int axis = number(s.attrs, "axis");
  const int parts = number(s.attrs, "parts");
  const int64_t size = shape.extent(axis);
  if (size < 0 || size % parts != 0) {
    throw InvalidArgument(fmt::format("{}: axis {} of {} cannot be cut into {} equal parts",
                                      s.op->name, axis, shape.str(), parts));
  }
  return {{s.inputs[0].dtype, shape.with(axis, size / parts)}};
}

op::TensorTypes infer_put(const op::Signature& s) {
  const Shape& shape = s.inputs[0].shape;
  const int axis = number(s.attrs, "axis");
  return {
      {s.inputs[0].dtype, shape.with(axis, shape.extent(axis) * s.attrs.get<int64_t>("parts"))}};
}

/// A thread reads its own rows only where the leading axis is not the one that is cut.
op::Split split_parts(const op::Signature& s) {
  return {.extent = s.outputs[0].shape.leading_extent(), .aligned = {number(s.attrs, "axis") != 0}};
}

op::TensorTypes infer_whole(const op::Signature& s) {
  const DType dtype = s.inputs.empty() ? s.ranges[0].dtype : s.inputs[0].dtype;
  return {{dtype, s.attrs.get<Shape>("whole")}};
}

/// Room for all parts; where the host has it, a program needs none.
op::TensorTypes infer_all_parts(const op::Signature& s) {
  if (s.attrs.get<bool>("is_hosted")) return {{s.inputs[0].dtype, Shape{1}}};
  const int64_t part = s.attrs.get<Shape>("part").total_extent();
  return {{s.inputs[0].dtype, Shape{part * s.attrs.get<int64_t>("parts")}}};
}

op::TensorTypes infer_own(const op::Signature& s) {
  const Shape& whole = s.attrs.get<Shape>("whole");
  if (s.inputs[0].shape != whole) {
    throw InvalidArgument(fmt::format("{}: a value {} does not fit a variable {}", s.op->name,
                                      s.inputs[0].str(), whole.str()));
  }
  return {{s.inputs[0].dtype, s.attrs.get<Shape>("part")}};
}

/// Threads have chunks of the output, which come from anywhere.
op::Split split_output(const op::Signature& s) {
  const int64_t elements = s.outputs[0].shape.total_extent();
  return {.extent = (elements + op::Split::kChunk - 1) / op::Split::kChunk,
          .unit = op::Split::Unit::chunk};
}

Tensor put_part(const Tensor& part, const Tensor& rank, const op::Attrs& attrs) {
  static const op::OpDef& def = op::find_op("put_part");
  return op::apply_one(def, {part, rank}, attrs);
}

Tensor take_part(const Tensor& whole, const Tensor& rank, const op::Attrs& attrs) {
  static const op::OpDef& def = op::find_op("take_part");
  return op::apply_one(def, {whole, rank}, attrs);
}

op::Attrs cut_along(int axis) {
  return {{"axis", int64_t{axis}}, {"parts", int64_t{group_size(Axis::model)}}};
}

}  // namespace

void register_parts(op::Registry& registry) {
  registry.add({.name = "take_part",
                .infer = infer_take,
                .split = split_parts,
                .gradient = [](const op::Call& call, const Tensors& g) -> Tensors {
                  return {put_part(g[0], call.inputs[1], call.attrs), Tensor()};
                }});
  registry.add({.name = "put_part",
                .infer = infer_put,
                .split = split_parts,
                .gradient = [](const op::Call& call, const Tensors& g) -> Tensors {
                  return {take_part(g[0], call.inputs[1], call.attrs), Tensor()};
                }});
  registry.add({.name = "join_parts",
                .infer = infer_whole,
                .split = split_output,
                .gradient = [](const op::Call& call, const Tensors& g) -> Tensors {
                  return op::apply(op::find_op("sum_to_part"), g, call.attrs);
                },
                .is_collective = true});
  registry.add({.name = "sum_to_part",
                .infer = infer_own,
                .split = split_output,
                .gradient = [](const op::Call& call, const Tensors& g) -> Tensors {
                  return op::apply(op::find_op("join_parts"), g, call.attrs);
                },
                .is_collective = true});
  // A join that goes on while others compute, on the devices' queues for exchanges: it begins, into
  // the memory of the whole, and ends with the whole. Only ever made by a pass, as all that follow.
  registry.add({.name = "join_start",
                .infer = infer_whole,
                .split = op::split_none,
                .no_gradient = true,
                .is_collective = true});
  registry.add({.name = "join_finish",
                .infer = infer_whole,
                .split = op::split_chunks,
                .no_gradient = true,
                .in_place = true,
                .is_collective = true});
  // The same two between processes. A join begins, with room for all
  // parts, and ends with the whole; a sum may be of several values. Along an axis of a mesh parts
  // are the processes' that this one meets there.
  for (const char* join : {"exchange_join_finish", "exchange_join_over_model"}) {
    registry.add({.name = join,
                  .infer = infer_whole,
                  .split = op::split_none,
                  .no_gradient = true,
                  .is_collective = true});
  }
  registry.add({.name = "exchange_join_start",
                .infer = infer_all_parts,
                .split = op::split_none,
                .no_gradient = true,
                .is_collective = true});
  for (const char* sum : {"exchange_sum_to_part", "exchange_sum_to_part_over_model"}) {
    registry.add({.name = sum,
                  .infer = infer_own,
                  .split = op::split_none,
                  .no_gradient = true,
                  .is_collective = true});
  }
  registry.add({.name = "own_part",
                .infer = infer_own,
                .split = split_output,
                .no_gradient = true,
                .depends_on_run = true});
  registry.add(
      {.name = "read_parts", .infer = infer_whole, .split = split_output, .no_gradient = true});
}

int cut_axis(const Tensor& x) {
  const graph::Trace* trace = graph::Trace::current();
  return trace == nullptr ? -1 : trace->cut_axis(x);
}

Tensor marked_part(const Tensor& part, int axis) {
  graph::Trace::current()->set_cut_axis(part, axis);
  return part;
}

Tensor model_rank() {
  const int32_t model = group_size(Axis::model);
  return model == group_size() ? replica_id() : mod(replica_id(), Tensor(model));
}

Tensor own_part(const Tensor& whole, int axis) {
  if (group_size(Axis::model) == 1) return whole;
  return take_part(whole, model_rank(), cut_along(axis));
}

Tensor gather_parts(const Tensor& x) {
  const int axis = cut_axis(x);
  if (axis < 0) return x;
  const PartsScope of_parts;
  return all_reduce({put_part(x, model_rank(), cut_along(axis))}, Axis::model)[0];
}

Shape whole_shape(const Tensor& x) {
  const int axis = cut_axis(x);
  if (axis < 0) return x.shape();
  return x.shape().with(axis, x.shape().extent(axis) * group_size(Axis::model));
}

}  // namespace tandem::collective
