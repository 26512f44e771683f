// random_permutation and random_shuffle: an order of rows is drawn, and rows are moved into it.
#include <fmt/format.h>

#include "op/apply.h"
#include "op/registry.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem {
namespace ops {
namespace {

op::TensorTypes infer_permutation(const op::Signature& s) {
  return {{DType::int64, s.attrs.get<Shape>("shape")}};
}

op::TensorTypes infer_permute_rows(const op::Signature& s) { return {s.inputs[0]}; }

/// Row i of the result is row order[i] of x, or with `inverse` row order[i] of the result is row i.
Tensor permute_rows(const Tensor& x, const Tensor& order, bool inverse) {
  static const op::OpDef& def = op::find_op("permute_rows");
  return op::apply_one(def, {x, order}, {{"inverse", inverse}});
}

Tensors permute_rows_gradient(const op::Call& call, const Tensors& g) {
  return {permute_rows(g[0], call.inputs[1], !call.attrs.get<bool>("inverse")), Tensor()};
}

/// An inverse writes rows anywhere, which threads that own rows of the result cannot.
op::Split split_permute_rows(const op::Signature& s) {
  if (s.attrs.get<bool>("inverse")) return op::split_none(s);
  return {.extent = s.outputs[0].shape.leading_extent(), .aligned = {false, true}};
}

Tensor permutation(const Shape& shape, const RandomOrderOptions& options) {
  static const op::OpDef& def = op::find_op("random_permutation");
  return op::apply_one(def, {},
                       {{"shape", shape},
                        {"seeded", options.seed.has_value()},
                        {"seed", static_cast<int64_t>(options.seed.value_or(0))}});
}

}  // namespace

void register_shuffle(op::Registry& registry) {
  // Each exchange follows from those before it: work for one thread.
  registry.add({.name = "random_permutation",
                .infer = infer_permutation,
                .split = op::split_none,
                .no_gradient = true,
                .depends_on_run = true,
                .is_random = true});
  registry.add({.name = "permute_rows",
                .infer = infer_permute_rows,
                .split = split_permute_rows,
                .gradient = permute_rows_gradient});
}

}  // namespace ops

Tensor random_permutation(int64_t n, const RandomOrderOptions& options) {
  return ops::permutation({n}, options);
}

Tensor random_shuffle(const Tensor& x, const RandomOrderOptions& options) {
  if (x.rank() == 0) throw InvalidArgument("random_shuffle: a scalar has no rows");
  return ops::permute_rows(x, ops::permutation({x.shape().extent(0)}, options), false);
}

}  // namespace tandem
