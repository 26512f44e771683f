// dropout gives two outputs: the result, and which elements were kept. Its gradient keeps the same
// ones, by the op dropout_keep.
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

op::TensorTypes infer_keep(const op::Signature& s) { return {s.inputs[0]}; }

Tensor kept(const Tensor& x, const Tensor& keep, double rate) {
  static const op::OpDef& def = op::find_op("dropout_keep");
  return op::apply_one(def, {x, keep}, {{"rate", rate}});
}

Tensors dropout_gradient(const op::Call& call, const Tensors& g) {
  if (!g[0].defined()) return {Tensor()};
  return {kept(g[0], call.outputs[1], call.attrs.get<double>("rate"))};
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
  registry.add({.name = "dropout_keep",
                .infer = infer_keep,
                .split = op::split_rows,
                .gradient = keep_gradient,
                .in_place = true});
}

}  // namespace ops

Tensor dropout(const Tensor& x, double rate, const DropoutOptions& options) {
  static const op::OpDef& def = op::find_op("dropout");
  const ops::BatchAxis batch = ops::batch_axis_of(x.shape());
  return op::apply(def, {x},
                   {{"rate", rate},
                    {"seeded", options.seed.has_value()},
                    {"seed", static_cast<int64_t>(options.seed.value_or(0))},
                    {"batch_axis", batch.axis},
                    {"per_row", batch.per_row}})[0];
}

}  // namespace tandem
