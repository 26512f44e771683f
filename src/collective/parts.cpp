// Two ops, each the other's gradient. take_part: one of equal parts of an axis. put_part: the
// reverse, a part at its place among zeros. Both have attributes "axis" and "parts", and as their
// second input the number of the part.
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
