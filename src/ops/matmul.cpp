#include <fmt/format.h>

#include "op/apply.h"
#include "op/registry.h"
#include "ops/broadcast.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem {
namespace ops {
namespace {

op::TensorTypes infer(const op::Signature& s) {
  check_same_dtype(s);
  check_floating(s);
  const Shape& a = s.inputs[0].shape;
  const Shape& b = s.inputs[1].shape;
  if (a.rank() != 2 || b.rank() != 2) {
    throw InvalidArgument(
        fmt::format("matmul: both sides must be matrices, got {} and {}", a.str(), b.str()));
  }
  const bool transpose_a = s.attrs.get<bool>("transpose_a");
  const bool transpose_b = s.attrs.get<bool>("transpose_b");
  const int64_t inner_a = a[transpose_a ? 0 : 1];
  const int64_t inner_b = b[transpose_b ? 1 : 0];
  if (inner_a != inner_b) {
    const auto note = [](bool transposed) { return transposed ? " (transposed)" : ""; };
    throw InvalidArgument(fmt::format("matmul: inner sizes differ, {}{} and {}{}", a.str(),
                                      note(transpose_a), b.str(), note(transpose_b)));
  }
  return {{s.inputs[0].dtype, Shape{a[transpose_a ? 1 : 0], b[transpose_b ? 0 : 1]}}};
}

/// By rows of the result: each thread reads its own rows of `a`, or columns where `a` is
/// transposed.
op::Split split(const op::Signature& s) {
  return {.extent = s.outputs[0].shape[0], .aligned = {!s.attrs.get<bool>("transpose_a"), false}};
}

Tensors gradient(const op::Call& call, const Tensors& g) {
  const bool ta = call.attrs.get<bool>("transpose_a");
  const bool tb = call.attrs.get<bool>("transpose_b");
  const Tensor& a = call.inputs[0];
  const Tensor& b = call.inputs[1];
  Tensors result(2);
  if (call.needed[0]) {
    result[0] = ta ? matmul(b, g[0], {.transpose_a = tb, .transpose_b = true})
                   : matmul(g[0], b, {.transpose_b = !tb});
  }
  if (call.needed[1]) {
    result[1] = tb ? matmul(g[0], a, {.transpose_a = true, .transpose_b = ta})
                   : matmul(a, g[0], {.transpose_a = !ta});
  }
  return result;
}

double flops(const op::Signature& s) {
  const Shape& a = s.inputs[0].shape;
  const Shape& c = s.outputs[0].shape;
  const int64_t inner = a[s.attrs.get<bool>("transpose_a") ? 0 : 1];
  return 2.0 * static_cast<double>(c.count()) * static_cast<double>(inner);
}

}  // namespace

void register_matmul(op::Registry& registry) {
  registry.add(
      {.name = "matmul", .infer = infer, .split = split, .gradient = gradient, .flops = flops});
}

}  // namespace ops

Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  static const op::OpDef& def = op::find_op("matmul");
  return op::apply_one(
      def, {a, b}, {{"transpose_a", options.transpose_a}, {"transpose_b", options.transpose_b}});
}

}  // namespace tandem
