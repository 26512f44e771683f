// Reads and assigns of variables as ops, and the methods of Variable that call them. A variable of
// which each replica has its own value is read here as their aggregate, and one that is cut over
// the replicas as the whole.
#include <fmt/format.h>

#include "op/apply.h"
#include "op/registry.h"
#include "op/widening.h"
#include "ops/elementwise/number.h"
#include "ops/variable_parts.h"
#include "tandem/error.h"
#include "tandem/ops.h"
#include "tandem/variable.h"

namespace tandem {
namespace ops {
namespace {

op::TensorTypes infer_read(const op::Signature& s) { return {s.ranges[0]}; }

op::TensorTypes infer_assign(const op::Signature& s) {
  if (s.inputs[0] == s.ranges[0]) return {};
  throw InvalidArgument(fmt::format("{}: a value {} does not fit a variable {}", s.op->name,
                                    s.inputs[0].str(), s.ranges[0].str()));
}

op::Split split_assign(const op::Signature& s) {
  return {.extent = s.inputs[0].shape.leading_extent(), .aligned = {true}};
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
  // Only ever made from a collective by a pass: a sum over the micro-batches of a batch, which the
  // one of number "first" begins. With "first_only" it is that one's value.
  registry.add({.name = "accumulate",
                .infer = infer_assign,
                .split = split_assign,
                .no_gradient = true,
                .writes_ranges = true});
}

}  // namespace ops

namespace {

bool is_cut(const Variable& variable) { return !variable.body()->cut.is_whole(); }

bool is_eager() { return &op::interpreter() == &op::eager_interpreter(); }

/// True where the variable has a value for each replica and no replica is asking.
bool is_seen_from_outside(const Variable& variable) {
  if (variable.body()->range.is_same_for_all() || op::interpreter().is_replica()) return false;
  if (is_eager()) return true;
  throw FailedPrecondition(fmt::format(
      "variable '{}': each replica has a value of its own; a function that uses it is called with "
      "strategy.run",
      variable.name()));
}

/// The value of a variable that is cut. A replica joins its own part with the others'; any other
/// function reads the parts where they are.
Tensor whole_of(const Variable& variable) {
  if (op::interpreter().is_replica()) return ops::join_parts(op::read_part(variable), variable);
  Tensor value = is_eager() ? read_joined(*variable.body()) : ops::read_parts(variable);
  for (op::Recorder* recorder : op::recorders()) recorder->record_read(variable, value);
  return value;
}

/// What the replicas' own values are together.
Tensor aggregate(const Variable& variable) {
  using enum VariableAggregation;
  const Tensors values = read_own_values(*variable.body());
  const VariableAggregation aggregation = variable.body()->aggregation;
  if (aggregation == none) {
    throw FailedPrecondition(
        fmt::format("variable '{}': each replica has a value of its own and there is no "
                    "aggregation to read them with; sum, mean and only_first_replica are accepted",
                    variable.name()));
  }
  Tensor joined = values[0];
  for (size_t r = 1; r < values.size() && aggregation != only_first_replica; ++r) {
    joined = joined + values[r];
  }
  return aggregation == mean ? joined * (1.0 / static_cast<double>(values.size())) : joined;
}

void check_fits(const Variable& variable, const Tensor& value) {
  if (type_of(value) == type_of(variable)) return;
  throw InvalidArgument(fmt::format("assign: a value {} does not fit a variable {}",
                                    type_of(value).str(), type_of(variable).str()));
}

/// A plain number everywhere in the variable's shape; a tensor as it is.
Tensor broadcast_to_variable(const op::OpDef& def, const Tensor& value, const Variable& variable) {
  if (!ops::is_number(value)) return value;
  return ops::filled(def.name, value, variable.dtype(), variable.shape());
}

/// Whether numbers are added to the variable where it lies: it has one value, of a dtype that ops
/// compute in.
bool is_changed_in_place(const Variable& variable) {
  return op::wider(variable.dtype()) == variable.dtype() && !is_seen_from_outside(variable);
}

void change(const op::OpDef& def, const Variable& variable, const Tensor& value) {
  if (is_cut(variable)) {
    throw Unimplemented(
        fmt::format("{} of variable '{}' inside strategy.run: it is cut over several devices, and "
                    "optimizers alone change it there; assign it outside",
                    def.name, variable.name()));
  }
  op::apply(def, {value}, {}, {op::operand_of(variable)});
}

}  // namespace

Tensor Variable::value() const {
  if (is_cut(*this)) return whole_of(*this);
  if (is_seen_from_outside(*this)) return aggregate(*this);
  Tensor value = op::interpreter().read(*this);
  for (op::Recorder* recorder : op::recorders()) recorder->record_read(*this, value);
  return value;
}

void Variable::assign(const Tensor& value) const {
  static const op::OpDef& def = op::find_op("assign");
  const Tensor all = broadcast_to_variable(def, value, *this);
  if (!is_seen_from_outside(*this)) return change(def, *this, all);
  check_fits(*this, all);
  write_variable(*body_, op::with_all_rows(all));
}

void Variable::assign_add(const Tensor& delta) const {
  static const op::OpDef& def = op::find_op("assign_add");
  const Tensor all = broadcast_to_variable(def, delta, *this);
  is_changed_in_place(*this) ? change(def, *this, all) : assign(value() + all);
}

void Variable::assign_sub(const Tensor& delta) const {
  static const op::OpDef& def = op::find_op("assign_sub");
  const Tensor all = broadcast_to_variable(def, delta, *this);
  is_changed_in_place(*this) ? change(def, *this, all) : assign(value() - all);
}

}  // namespace tandem
