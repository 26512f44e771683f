#include "ops/elementwise/elementwise_rules.h"

#include <fmt/format.h>

#include "tandem/error.h"

namespace tandem::ops {
namespace {

/// "float32, float64 and int32 are", "bool is"
std::string listed(DTypes dtypes) {
  std::string text;
  for (size_t i = 0; i < dtypes.size(); ++i) {
    const size_t left = dtypes.size() - i - 1;
    text += fmt::format("{}{}", name_of(dtypes[i]), left > 1 ? ", " : left == 1 ? " and " : "");
  }
  return text + (dtypes.size() == 1 ? " is" : " are");
}

op::OpDef elementwise_op(std::string name, op::GradientFn gradient) {
  op::OpDef op;
  op.name = std::move(name);
  op.split = op::split_rows;
  op.no_gradient = !gradient;
  op.gradient = std::move(gradient);
  op.in_place = true;
  op.pointwise = true;
  return op;
}

}  // namespace

void check_dtype(const op::Signature& signature, size_t input, DTypes accepted) {
  const DType dtype = signature.inputs[input].dtype;
  if (std::ranges::find(accepted, dtype) != accepted.end()) return;
  throw InvalidArgument(fmt::format("{}: {} is not supported; {}", signature.op->name,
                                    name_of(dtype), listed(accepted)));
}

op::OpDef unary_op(std::string name, DTypes accepted, op::GradientFn gradient) {
  op::OpDef op = elementwise_op(std::move(name), std::move(gradient));
  op.infer = [accepted](const op::Signature& s) -> op::TensorTypes {
    check_dtype(s, 0, accepted);
    return {s.inputs[0]};
  };
  return op;
}

op::OpDef binary_op(std::string name, DTypes accepted, op::GradientFn gradient) {
  op::OpDef op = elementwise_op(std::move(name), std::move(gradient));
  op.infer = [accepted](const op::Signature& s) -> op::TensorTypes {
    check_same_dtype(s);
    check_dtype(s, 0, accepted);
    const Shape shape = broadcast_shapes(s.op->name, s.inputs[0].shape, s.inputs[1].shape);
    return {{s.inputs[0].dtype, shape}};
  };
  return op;
}

op::OpDef costly(op::OpDef op) {
  constexpr double kPerElement = 20;
  op.flops = [](const op::Signature& s) {
    return kPerElement * static_cast<double>(s.outputs[0].shape.total_extent());
  };
  return op;
}

op::OpDef giving_bools(op::OpDef op) {
  op.pointwise = false;
  op.infer = [infer = std::move(op.infer)](const op::Signature& s) {
    op::TensorTypes types = infer(s);
    types[0].dtype = DType::boolean;
    return types;
  };
  return op;
}

}  // namespace tandem::ops
