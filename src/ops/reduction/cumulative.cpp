// cumsum, whose gradient is a cumsum in the other direction.
#include "op/apply.h"
#include "op/registry.h"
#include "ops/reduction/reduction_rules.h"
#include "ops/shaping/broadcast.h"
#include "tandem/ops.h"

namespace tandem {
namespace ops {
namespace {

using op::Call;
using op::Signature;

op::TensorTypes infer(const Signature& s) {
  using enum DType;
  check_dtype("cumsum", s, {float32, float64, int32, int64});
  return {s.inputs[0]};
}

/// Along the leading axis each row needs the one before: that is work for one thread.
op::Split split(const Signature& s) {
  return s.attrs.get<int64_t>("axis") == 0 ? op::split_none(s) : op::split_rows(s);
}

/// An element is part of the sums from its own on; those of the gradient run the other way.
Tensors gradient(const Call& call, const Tensors& g) {
  return {cumsum(g[0], {.axis = static_cast<int>(call.attrs.get<int64_t>("axis")),
                        .exclusive = call.attrs.get<bool>("exclusive"),
                        .reverse = !call.attrs.get<bool>("reverse")})};
}

}  // namespace

void register_cumulative(op::Registry& registry) {
  registry.add({.name = "cumsum", .infer = infer, .split = split, .gradient = gradient});
}

}  // namespace ops

Tensor cumsum(const Tensor& x, const CumsumOptions& options) {
  static const op::OpDef& def = op::find_op("cumsum");
  return op::apply_one(def, {x},
                       {{"axis", int64_t{ops::normalized_axis("cumsum", options.axis, x.shape())}},
                        {"exclusive", options.exclusive},
                        {"reverse", options.reverse}});
}

}  // namespace tandem
