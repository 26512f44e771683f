#include "ops/variable_parts.h"

#include "op/apply.h"
#include "op/registry.h"
#include "tandem/ops.h"

namespace tandem::ops {
namespace {

/// The parts one behind the other.
Shape stacked_shape(const VariableBody& variable) {
  const VariableCut& cut = variable.cut;
  return cut.axis <= 0 ? variable.shape
                       : cut.part_of(variable.shape).inserted(0, int64_t{cut.parts});
}

op::Attrs attrs_of(const VariableBody& variable) {
  return {{"parts", int64_t{variable.cut.parts}},
          {"whole", stacked_shape(variable)},
          {"part", variable.cut.part_of(variable.shape)},
          {"waits", false},
          {"program", int64_t{0}}};
}

/// [parts, .., size / parts, ..] as [.., size, ..].
Tensor in_order(const Tensor& parts, const VariableBody& variable) {
  const int axis = variable.cut.axis;
  if (axis <= 0) return parts;
  std::vector<int> order;
  for (int i = 1; i <= axis; ++i) order.push_back(i);
  order.push_back(0);
  for (int i = axis + 1; i < parts.rank(); ++i) order.push_back(i);
  return reshape(transpose(parts, order), variable.shape);
}

/// [.., size, ..] as [parts, .., size / parts, ..].
Tensor stacked(const Tensor& whole, const VariableBody& variable) {
  const int axis = variable.cut.axis;
  if (axis <= 0) return whole;
  const Shape part = variable.cut.part_of(variable.shape);
  std::vector<int> order{axis};
  for (int i = 0; i <= part.rank(); ++i) {
    if (i != axis) order.push_back(i);
  }
  return transpose(reshape(whole, part.inserted(axis, int64_t{variable.cut.parts})), order);
}

}  // namespace

Tensor join_parts(const Tensor& part, const Variable& variable) {
  static const op::OpDef& def = op::find_op("join_parts");
  const VariableBody& body = *variable.body();
  if (body.cut.is_whole()) return part;
  return in_order(op::apply_one(def, {part}, attrs_of(body)), body);
}

Tensor own_part(const Tensor& whole, const Variable& variable) {
  static const op::OpDef& def = op::find_op("own_part");
  const VariableBody& body = *variable.body();
  if (body.cut.is_whole()) return whole;
  return op::apply_one(def, {stacked(whole, body)}, attrs_of(body));
}

Tensor sum_to_part(const Tensor& whole, const Variable& variable, bool waits) {
  static const op::OpDef& def = op::find_op("sum_to_part");
  return op::apply_one(def, {whole}, attrs_of(*variable.body()).with("waits", waits));
}

Tensor read_parts(const Variable& variable) {
  static const op::OpDef& def = op::find_op("read_parts");
  const VariableBody& body = *variable.body();
  op::RangeOperands parts;
  for (int part = 0; part < body.cut.parts; ++part) {
    parts.push_back(op::operand_of(variable));
    parts.back().range.part = part;
  }
  return in_order(op::apply_one(def, {}, attrs_of(body), parts), body);
}

}  // namespace tandem::ops
