#include <fmt/format.h>

#include "op/apply.h"
#include "op/registry.h"
#include "tandem/error.h"
#include "tandem/variable.h"

namespace tandem {
namespace ops {
namespace {

op::TensorTypes infer_read(const op::Signature& s) { return {s.ranges[0]}; }

op::TensorTypes infer_assign(const op::Signature& s) {
  if (s.inputs[0] == s.ranges[0]) return {};
  throw InvalidArgument(fmt::format("{}: a value {}{} does not fit a variable {}{}", s.op->name,
                                    name_of(s.inputs[0].dtype), s.inputs[0].shape.str(),
                                    name_of(s.ranges[0].dtype), s.ranges[0].shape.str()));
}

op::Split split_assign(const op::Signature& s) {
  return {.extent = s.inputs[0].shape.rows(), .aligned = {true}};
}

}  // namespace

void register_assign(op::Registry& registry) {
  registry.add(
      {.name = "read_variable", .infer = infer_read, .split = op::split_rows, .no_gradient = true});
  for (const char* name : {"assign", "assign_add", "assign_sub"}) {
    registry.add({.name = name,
                  .infer = infer_assign,
                  .split = split_assign,
                  .no_gradient = true,
                  .writes_ranges = true});
  }
}

}  // namespace ops

Tensor Variable::value() const {
  static const op::OpDef& def = op::find_op("read_variable");
  Tensor value = op::apply_one(def, {}, {}, {op::operand_of(*this)});
  for (op::Recorder* recorder : op::recorders()) recorder->record_read(*this, value);
  return value;
}

void Variable::assign(const Tensor& value) const {
  static const op::OpDef& def = op::find_op("assign");
  op::apply(def, {value}, {}, {op::operand_of(*this)});
}

void Variable::assign_add(const Tensor& delta) const {
  static const op::OpDef& def = op::find_op("assign_add");
  op::apply(def, {delta}, {}, {op::operand_of(*this)});
}

void Variable::assign_sub(const Tensor& delta) const {
  static const op::OpDef& def = op::find_op("assign_sub");
  op::apply(def, {delta}, {}, {op::operand_of(*this)});
}

}  // namespace tandem
