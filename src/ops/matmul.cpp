// The op `matmul`, for batches of matrices, either side transposed. Its gradients are products
// again, with the sides transposed, so that no transpose is ever computed.
#include "tandem/ops/matmul.h"

#include <fmt/format.h>

#include "op/apply.h"
#include "op/registry.h"
#include "ops/elementwise/fused.h"
#include "ops/shaping/broadcast.h"
#include "ops/shaping/exact_shape.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem {
namespace ops {
namespace {

/// The axes before the last `count`.
Shape leading(const Shape& shape, int count) {
  return Shape(shape.extents().first(static_cast<size_t>(shape.rank() - count)));
}

/// The size of the last axis but one, or of the last axis: 2 or 1 from the end.
int64_t from_end(const Shape& shape, int places) { return shape.extent(shape.rank() - places); }

int64_t inner_of(const Shape& a, bool transpose_a) { return from_end(a, transpose_a ? 2 : 1); }

Shape batch_of(const Shape& a, const Shape& b) {
  if (a.rank() == 2 && b.rank() == 2) return {};
  try {
    return broadcast_shapes("matmul", leading(a, 2), leading(b, 2));
  } catch (const InvalidArgument&) {
    throw InvalidArgument(
        fmt::format("matmul: batch axes do not broadcast, {} and {}", a.str(), b.str()));
  }
}

op::TensorTypes infer(const op::Signature& s) {
  check_same_dtype(s);
  check_floating(s);
  const Shape& a = s.inputs[0].shape;
  const Shape& b = s.inputs[1].shape;
  if (a.rank() < 2 || b.rank() < 2) {
    throw InvalidArgument(
        fmt::format("matmul: both sides must be matrices, got {} and {}", a.str(), b.str()));
  }
  const bool transpose_a = s.attrs.get<bool>("transpose_a");
  const bool transpose_b = s.attrs.get<bool>("transpose_b");
  if (inner_of(a, transpose_a) != from_end(b, transpose_b ? 1 : 2)) {
    const auto note = [](bool transposed) { return transposed ? " (transposed)" : ""; };
    throw InvalidArgument(fmt::format("matmul: inner sizes differ, {}{} and {}{}", a.str(),
                                      note(transpose_a), b.str(), note(transpose_b)));
  }
  const Shape batch = batch_of(a, b);
  const Shape rows = batch.inserted(batch.rank(), from_end(a, transpose_a ? 1 : 2));
  return {{s.inputs[0].dtype, rows.inserted(rows.rank(), from_end(b, transpose_b ? 2 : 1))}};
}

/// The work is cut by rows of all matrices of the result, so that one matrix keeps all threads at
/// work. Each thread reads its own rows of `a`, unless that is transposed or repeated.
op::Split split(const op::Signature& s) {
  const int64_t rows = leading(s.outputs[0].shape, 1).total_extent();
  const bool own_rows =
      !s.attrs.get<bool>("transpose_a") && leading(s.inputs[0].shape, 1).total_extent() == rows;
  std::vector<bool> aligned{own_rows, false};
  // In a fused product each thread reads its own rows of a companion.
  for (size_t i = 2; i < s.inputs.size(); ++i) aligned.push_back(s.inputs[i] == s.outputs[0]);
  return {.extent = rows, .aligned = std::move(aligned)};
}

/// All matrices below each other.
Tensor stacked(const Tensor& x) {
  return with_shape(x, {leading(x.shape(), 1).total_extent(), from_end(x.shape(), 1)});
}

Tensors gradient(const op::Call& call, const Tensors& g) {
  const bool ta = call.attrs.get<bool>("transpose_a");
  const bool tb = call.attrs.get<bool>("transpose_b");
  const Tensor& a = call.inputs[0];
  const Tensor& b = call.inputs[1];
  Tensors result(2);
  if (call.needed[0]) {
    const Tensor whole = ta ? matmul(b, g[0], {.transpose_a = tb, .transpose_b = true})
                            : matmul(g[0], b, {.transpose_b = !tb});
    result[0] = sum_to_shape(whole, a.shape());
  }
  if (call.needed[1]) {
    // One matrix for all of `a`: the sum over the batch is the inner sum of one product.
    const bool one_matrix =
        leading(b.shape(), 2).total_extent() == 1 && !ta &&
        leading(a.shape(), 1).total_extent() == leading(g[0].shape(), 1).total_extent();
    const Tensor left = one_matrix ? stacked(a) : a;
    const Tensor right = one_matrix ? stacked(g[0]) : g[0];
    const Tensor whole = tb ? matmul(right, left, {.transpose_a = true, .transpose_b = ta})
                            : matmul(left, right, {.transpose_a = !ta});
    result[1] = one_matrix ? with_shape(whole, b.shape()) : sum_to_shape(whole, b.shape());
  }
  return result;
}

double flops(const op::Signature& s) {
  const int64_t inner = inner_of(s.inputs[0].shape, s.attrs.get<bool>("transpose_a"));
  return 2.0 * static_cast<double>(s.outputs[0].shape.total_extent()) * static_cast<double>(inner);
}

}  // namespace

void register_matmul(op::Registry& registry) {
  registry.add(
      {.name = "matmul", .infer = infer, .split = split, .gradient = gradient, .flops = flops});
  registry.add(fused_product("fused_matmul", split, flops));
}

}  // namespace ops

Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  static const op::OpDef& def = op::find_op("matmul");
  return op::apply_one(
      def, {a, b}, {{"transpose_a", options.transpose_a}, {"transpose_b", options.transpose_b}});
}

}  // namespace tandem
