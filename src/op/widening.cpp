#include "op/widening.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "op/apply.h"
#include "op/registry.h"
#include "tandem/error.h"

namespace tandem::op {
namespace {

/// Another dtype that ops compute in, of the same kind as wider().
DType other_than_wider(DType dtype) {
  if (wider(dtype) == dtype) return dtype;
  if (is_floating(dtype)) return DType::float64;
  return wider(dtype) == DType::int32 ? DType::int64 : DType::int32;
}

bool is_narrow(const Tensor& x) { return wider(x.dtype()) != x.dtype(); }

InvalidArgument dtypes_differ(const Signature& call) {
  return InvalidArgument(
      fmt::format("{}: dtypes differ, {}; cast one of them", call.op->name, listed(call.inputs)));
}

/// The narrow dtype of the inputs that are floating, or of those that are whole.
std::optional<DType> narrow_dtype(const Signature& call, bool floating) {
  std::optional<DType> found;
  for (const TensorType& input : call.inputs) {
    const DType dtype = input.dtype;
    if (wider(dtype) == dtype || is_floating(dtype) != floating) continue;
    if (found && *found != dtype) {
      throw dtypes_differ(call);
    }
    found = dtype;
  }
  return found;
}

TensorTypes outputs_with(const Signature& call, DType (*dtype_for)(DType)) {
  Signature with = call;
  for (TensorType& input : with.inputs) input.dtype = dtype_for(input.dtype);
  return call.op->infer(with);
}

/// What the call gives: an output whose dtype follows that of the inputs is narrow as they are.
TensorTypes narrow_outputs(const Signature& call) {
  const auto floating = narrow_dtype(call, true);
  const auto whole = narrow_dtype(call, false);
  TensorTypes outputs;
  try {
    outputs = outputs_with(call, wider);
  } catch (const Error& error) {
    error.rethrow_within(call.str());
  }
  TensorTypes others;
  try {
    others = outputs_with(call, other_than_wider);
  } catch (const InvalidArgument&) {
    throw dtypes_differ(call);  // With one dtype in the place of both they were accepted.
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    DType& dtype = outputs[i].dtype;
    if (dtype == others[i].dtype) continue;
    const auto& followed = is_floating(dtype) ? floating : whole;
    if (followed) dtype = *followed;
  }
  return outputs;
}

Tensor converted(const Tensor& x, DType dtype) {
  static const OpDef& cast = find_op("cast");
  return x.dtype() == dtype ? x : apply_one(cast, {x}, {{"dtype", dtype}});
}

}  // namespace

bool needs_widening(const OpDef& op, const Tensors& inputs) {
  if (std::ranges::none_of(inputs, is_narrow)) return false;
  const Registry& registry = Registry::instance();
  const DType deciding = inputs[0].dtype();
  return !registry.has_kernel(op.name, "cpu", deciding) &&
         registry.has_kernel(op.name, "cpu", wider(deciding));
}

Tensors apply_widened(const OpDef& op, const Tensors& inputs, const Attrs& attrs) {
  const TensorTypes types = narrow_outputs({&op, types_of(inputs), {}, attrs, {}});
  Tensors wide;
  for (const Tensor& input : inputs) wide.push_back(converted(input, wider(input.dtype())));
  Tensors outputs = apply(op, std::move(wide), attrs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i] = converted(outputs[i], types[i].dtype);
  }
  return outputs;
}

}  // namespace tandem::op
