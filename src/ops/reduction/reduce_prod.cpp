// reduce_prod. Its gradient multiplies, for each element, all others: dividing the product by the
// element would fail at zeros.
#include <fmt/format.h>

#include "op/apply.h"
#include "op/registry.h"
#include "ops/reduction/reduction_rules.h"
#include "ops/shaping/axis_slice.h"
#include "ops/shaping/exact_shape.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem {
namespace ops {
namespace {

using op::Call;
using op::Signature;

op::TensorTypes infer(const Signature& s) {
  using enum DType;
  check_dtype("reduce_prod", s, {float32, float64, int32, int64});
  return {{s.inputs[0].dtype, reduced_shape(s)}};
}

/// For each of n rows the product of the others, with no division, so that zeros do no harm. With
/// the rows paired, the others of one are its partner and the others of the pair.
Tensor product_of_others(const Tensor& rows) {
  const int64_t n = rows.shape().extent(0);
  if (n < 2) return ones_like(rows);
  if (n % 2 != 0) {
    const Tensor even = pad(rows, {{0, 1}, {0, 0}}, {.value = 1});
    return part_along(product_of_others(even), 0, 0, n);
  }
  const Tensor first = part_along(rows, 0, 0, n / 2);
  const Tensor second = part_along(rows, 0, n / 2, n / 2);
  if (n == 2) return concat({second, first}, 0);
  const Tensor others = product_of_others(first * second);
  return concat({others * second, others * first}, 0);
}

/// The reduced axes first, then the others.
std::vector<int> reduced_first(const Axes& axes, int rank) {
  std::vector<int> order(axes.begin(), axes.end());
  for (int axis = 0; axis < rank; ++axis) {
    if (!contains(axes, axis)) order.push_back(axis);
  }
  return order;
}

Tensors gradient(const Call& call, const Tensors& g) {
  const Tensor& x = call.inputs[0];
  const auto& axes = call.attrs.get<Axes>("axes");
  if (axes.empty()) return {g[0]};
  const std::vector<int> order = reduced_first(axes, x.rank());
  std::vector<int> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    back[static_cast<size_t>(order[i])] = static_cast<int>(i);
  }
  const Tensor moved = transpose(x, order);
  int64_t meeting = 1;
  for (int64_t axis : axes) meeting *= x.shape().extent(static_cast<int>(axis));
  if (meeting < 0) {
    throw InvalidArgument(fmt::format(
        "reduce_prod: no gradient over the batch axis of {} while its size is not known",
        x.shape().str()));
  }
  const int64_t kept = reduced_shape(x.shape(), axes, false).total_extent();
  const Tensor others = product_of_others(with_shape(moved, {meeting, kept}));
  const Tensor in_place = transpose(with_shape(others, moved.shape()), back);
  return {in_place * with_shape(g[0], reduced_shape(x.shape(), axes, true))};
}

}  // namespace

void register_reduce_prod(op::Registry& registry) {
  registry.add(
      {.name = "reduce_prod", .infer = infer, .split = split_reduction, .gradient = gradient});
}

}  // namespace ops

Tensor reduce_prod(const Tensor& x, const ReduceOptions& options) {
  static const op::OpDef& def = op::find_op("reduce_prod");
  return op::apply_one(
      def, {x},
      {{"axes", ops::axes_of("reduce_prod", x.shape(), options)}, {"keepdims", options.keepdims}});
}

}  // namespace tandem
