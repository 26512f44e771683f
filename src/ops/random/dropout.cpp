// dropout gives two outputs: the result, and which elements were kept. Its gradient keeps the same
// ones, by the op dropout_keep. stateless_dropout has its seed as a second input.
#include <fmt/format.h>

#include "op/apply.h"
#include "op/registry.h"
#include "ops/random/batch_axis.h"
#include "ops/shaping/broadcast.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem {
namespace ops {
namespace {

/// The second output says which elements were kept.
op::TensorTypes infer_dropout(const op::Signature& s) {
  check_floating(s);
  const double rate = s.attrs.get<double>("rate");
  if (!(rate >= 0 && rate < 1)) {
    throw InvalidArgument(fmt::format("dropout: the rate is {}, not within [0, 1)", rate));
  }
  return {s.inputs[0], {DType::boolean, s.inputs[0].shape}};
}

/// The second input is the seed.
op::TensorTypes infer_stateless(const op::Signature& s) {
  const op::TensorType& seed = s.inputs[1];
  if (seed.dtype != DType::int64 || seed.shape != Shape{2}) {
    throw InvalidArgument(fmt::format("dropout: stateless_seed is {}, not int64[2]", seed.str()));
  }
  return infer_dropout(s);
}

op::Split split_stateless(const op::Signature& s) {
  return {.extent = s.inputs[0].shape.leading_extent(), .aligned = {true, false}};
}

op::TensorTypes infer_keep(const op::Signature& s) { return {s.inputs[0]}; }

Tensor kept(const Tensor& x, const Tensor& keep, double rate) {
  static const op::OpDef& def = op::find_op("dropout_keep");
  return op::apply_one(def, {x, keep}, {{"rate", rate}});
}

Tensors dropout_gradient(const op::Call& call, const Tensors& g) {
  Tensors result(call.inputs.size());
  if (g[0].defined()) result[0] = kept(g[0], call.outputs[1], call.attrs.get<double>("rate"));
  return result;
}

/// Linear in its first input.
Tensors keep_gradient(const op::Call& call, const Tensors& g) {
  return {kept(g[0], call.inputs[1], call.attrs.get<double>("rate")), Tensor()};
}

}  // namespace

void register_dropout(op::Registry& registry) {
  registry.add({.name = "dropout",
                .infer = infer_dropout,
                .split = op::split_rows,
                .gradient = dropout_gradient,
                .in_place = true,
                .depends_on_run = true,
                .is_random = true});
  registry.add({.name = "stateless_dropout",
                .infer = infer_stateless,
                .split = split_stateless,
                .gradient = dropout_gradient,
                .depends_on_run = true});
  registry.add({.name = "dropout_keep",
                .infer = infer_keep,
                .split = op::split_rows,
                .gradient = keep_gradient,
                .in_place = true});
}

}  // namespace ops

Tensor dropout(const Tensor& x, double rate, const DropoutOptions& options) {
  static const op::OpDef& def = op::find_op("dropout");
  static const op::OpDef& stateless = op::find_op("stateless_dropout");
  const ops::BatchAxis batch = ops::batch_axis_of(x.shape());
  if (options.stateless_seed.defined()) {
    return op::apply(stateless, {x, options.stateless_seed},
                     {{"rate", rate}, {"batch_axis", batch.axis}, {"per_row", batch.per_row}})[0];
  }
  return op::apply(def, {x},
                   {{"rate", rate},
                    {"seeded", options.seed.has_value()},
                    {"seed", static_cast<int64_t>(options.seed.value_or(0))},
                    {"batch_axis", batch.axis},
                    {"per_row", batch.per_row}})[0];
}

}  // namespace tandem
