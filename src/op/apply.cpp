#include "op/apply.h"

#include <utility>

#include "op/registry.h"
#include "op/widening.h"

namespace tandem::op {
namespace {

thread_local Interpreter* current_interpreter = nullptr;
thread_local const Tensor* current_near = nullptr;

}  // namespace

RangeOperand operand_of(const Variable& variable) {
  const VariableBody& body = *variable.body();
  return {body.range, {body.dtype, body.cut.part_of(body.shape)}, body.aggregation};
}

Tensor Interpreter::read(const Variable& variable) {
  static const OpDef& read = find_op("read_variable");
  return apply_one(read, {}, {}, {operand_of(variable)});
}

Tensor read_part(const Variable& variable) {
  Tensor value = interpreter().read(variable);
  for (Recorder* recorder : recorders()) recorder->record_read(variable, value);
  return value;
}

Interpreter& interpreter() {
  return current_interpreter ? *current_interpreter : eager_interpreter();
}

InterpreterScope::InterpreterScope(Interpreter& interpreter)
    : former_(std::exchange(current_interpreter, &interpreter)) {}
InterpreterScope::~InterpreterScope() { current_interpreter = former_; }

NearScope::NearScope(const Tensor& tensor) : former_(std::exchange(current_near, &tensor)) {}
NearScope::~NearScope() { current_near = former_; }
const Tensor* NearScope::current() { return current_near; }

std::vector<Recorder*>& recorders() {
  thread_local std::vector<Recorder*> open;
  return open;
}

Tensor with_all_rows(const Tensor& tensor) {
  if (!tensor.body() || !tensor.body()->slices) return tensor;
  static const OpDef& scatter = find_op("scatter_add_rows");
  const RowSlices& slices = *tensor.body()->slices;
  return apply_one(scatter, {slices.values, slices.indices},
                   {{"shape", tensor.shape()}, {"axis", int64_t{0}}});
}

Tensors apply(const OpDef& op, Tensors inputs, Attrs attrs, const RangeOperands& ranges) {
  for (Tensor& input : inputs) {
    if (input.body() && input.body()->slices) input = with_all_rows(input);
  }
  if (ranges.empty() && needs_widening(op, inputs)) return apply_widened(op, inputs, attrs);
  Signature signature{&op, types_of(inputs), {}, std::move(attrs), {}};
  for (const RangeOperand& range : ranges) signature.ranges.push_back(range.type);
  signature.outputs = op.infer(signature);

  Tensors outputs = interpreter().interpret(signature, inputs, ranges);
  if (!op.has_effect()) {
    for (Recorder* recorder : recorders()) recorder->record(op, inputs, outputs, signature.attrs);
  }
  return outputs;
}

Tensor apply_one(const OpDef& op, Tensors inputs, Attrs attrs, const RangeOperands& ranges) {
  return std::move(apply(op, std::move(inputs), std::move(attrs), ranges)[0]);
}

}  // namespace tandem::op
