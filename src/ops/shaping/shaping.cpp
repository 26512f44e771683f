// Ops that change how a tensor is seen: reshape, identity and stop_gradient, which are views of the
// same memory; cast and transpose, which are copies; and `shape`, the sizes themselves as a tensor.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "core/sizes.h"
#include "op/apply.h"
#include "op/registry.h"
#include "ops/shaping/broadcast.h"
#include "ops/shaping/exact_shape.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem {
namespace ops {
namespace {

using op::Call;
using op::Signature;
using op::TensorTypes;
using Permutation = std::vector<int64_t>;

int open_axis(const Shape& target) {
  const auto extents = target.extents();
  const auto is_open = [](int64_t extent) { return extent < 0; };
  if (std::ranges::count_if(extents, is_open) > 1) {
    throw InvalidArgument(
        fmt::format("reshape: more than one size of {} is open; one may be -1", target.str()));
  }
  return static_cast<int>(std::ranges::find_if(extents, is_open) - extents.begin());
}

/// The target with its open size, if it has one, computed from the number of elements.
Shape completed(const Shape& from, const Shape& target) {
  if (!target.is_open()) return target;
  const int open = open_axis(target);
  const int64_t known = target.with(open, 1).total_extent();
  if (target.extent(open) != -1 || known == 0 || from.total_extent() % known != 0) {
    throw InvalidArgument(fmt::format("reshape: no size in the place of {} of {} makes it fit {}",
                                      target.extent(open), target.str(), from.str()));
  }
  return target.with(open, from.total_extent() / known);
}

TensorTypes infer_reshape(const Signature& s) {
  const Shape& from = s.inputs[0].shape;
  const auto& target = s.attrs.get<Shape>("shape");
  if (from.total_extent() != target.total_extent()) {
    throw InvalidArgument(fmt::format("reshape: {} elements of {} do not fill {}",
                                      from.count().str(), from.str(), target.str()));
  }
  return {{s.inputs[0].dtype, target}};
}

Tensors reshape_gradient(const Call& call, const Tensors& g) {
  return {with_shape(g[0], call.inputs[0].shape())};
}

TensorTypes infer_shape(const Signature& s) {
  return {{s.attrs.get<DType>("dtype"), Shape{s.inputs[0].shape.rank()}}};
}

TensorTypes infer_same(const Signature& s) { return {s.inputs[0]}; }

TensorTypes infer_cast(const Signature& s) {
  return {{s.attrs.get<DType>("dtype"), s.inputs[0].shape}};
}

Tensors cast_gradient(const Call& call, const Tensors& g) {
  const DType from = call.inputs[0].dtype();
  return {is_floating(from) && is_floating(g[0].dtype()) ? cast(g[0], from) : Tensor()};
}

TensorTypes infer_transpose(const Signature& s) {
  Shape shape = s.inputs[0].shape;
  const auto& permutation = s.attrs.get<Permutation>("permutation");
  for (int axis = 0; axis < shape.rank(); ++axis) {
    shape = shape.with(
        axis, s.inputs[0].shape.extent(static_cast<int>(permutation[static_cast<size_t>(axis)])));
  }
  return {{s.inputs[0].dtype, shape}};
}

/// A thread reads its own rows only where the leading axis stays in its place.
op::Split split_transpose(const Signature& s) {
  const auto& permutation = s.attrs.get<Permutation>("permutation");
  return {.extent = s.outputs[0].shape.leading_extent(),
          .aligned = {!permutation.empty() && permutation[0] == 0}};
}

Tensors transpose_gradient(const Call& call, const Tensors& g) {
  const auto& permutation = call.attrs.get<Permutation>("permutation");
  std::vector<int> inverse(permutation.size());
  for (size_t axis = 0; axis < permutation.size(); ++axis) {
    inverse[static_cast<size_t>(permutation[axis])] = static_cast<int>(axis);
  }
  return {transpose(g[0], inverse)};
}

/// Checked, and counted from the start; reversed axes if none are given.
Permutation full_permutation(const Tensor& x, const std::vector<int>& given) {
  Permutation result(static_cast<size_t>(x.rank()));
  std::iota(result.rbegin(), result.rend(), 0);
  if (given.empty()) return result;
  const Permutation reversed = result;
  result.clear();
  for (int axis : given) result.push_back(normalized_axis("transpose", axis, x.shape()));
  if (!std::ranges::is_permutation(result, reversed)) {
    throw InvalidArgument(fmt::format("transpose: [{}] does not name each axis of {} once",
                                      fmt::join(given, ","), x.shape().str()));
  }
  return result;
}

/// x repeated along one axis: a new axis before it, broadcast, and made one with it.
Tensor repeated(const Tensor& x, int axis, int64_t times) {
  const Shape& shape = x.shape();
  const Shape target = shape.with(axis, size_product(shape.extent(axis), times));
  int64_t outer = 1;
  int64_t inner = 1;
  for (int i = 0; i < shape.rank(); ++i) (i < axis ? outer : inner) *= shape.extent(i);
  // Threads share the leading axis: it should not be of size 1.
  const Tensor flat = with_shape(x, outer == 1 ? Shape{1, inner} : Shape{outer, 1, inner});
  const Shape wide = outer == 1 ? Shape{times, inner} : Shape{outer, times, inner};
  const Tensor many = broadcast_to(flat, wide.of_batch());
  return with_shape(many, target);
}

}  // namespace

void register_shaping(op::Registry& registry) {
  registry.add({.name = "reshape",
                .infer = infer_reshape,
                .split = op::split_rows,
                .gradient = reshape_gradient,
                .is_view = true});
  registry.add(
      {.name = "shape", .infer = infer_shape, .split = op::split_none, .no_gradient = true});
  registry.add({.name = "identity",
                .infer = infer_same,
                .split = op::split_rows,
                .gradient = [](const Call&, const Tensors& g) { return Tensors{g[0]}; },
                .is_view = true});
  // The same value for calls that are made again: they shall not be merged with the first ones.
  registry.add({.name = "recompute_input",
                .infer = infer_same,
                .split = op::split_rows,
                .gradient = [](const Call&, const Tensors& g) { return Tensors{g[0]}; },
                .is_view = true});
  registry.add({.name = "stop_gradient",
                .infer = infer_same,
                .split = op::split_rows,
                .no_gradient = true,
                .is_view = true});
  registry.add(
      {.name = "cast", .infer = infer_cast, .split = op::split_rows, .gradient = cast_gradient});
  registry.add({.name = "transpose",
                .infer = infer_transpose,
                .split = split_transpose,
                .gradient = transpose_gradient});
}

void check_decided(const std::string& op, const Shape& shape) {
  if (!shape.is_open()) return;
  throw InvalidArgument(
      fmt::format("{}: {} has a negative size; reshape alone can fill one in", op, shape.str()));
}

Tensor with_shape(const Tensor& x, const Shape& shape) {
  static const op::OpDef& def = op::find_op("reshape");
  return op::apply_one(def, {x}, {{"shape", shape}});
}

}  // namespace ops

Tensor reshape(const Tensor& x, const Shape& shape) {
  return ops::with_shape(x, ops::completed(x.shape(), shape));
}

Tensor shape(const Tensor& x, DType dtype) {
  static const op::OpDef& def = op::find_op("shape");
  if (dtype != DType::int32 && dtype != DType::int64) {
    throw InvalidArgument(
        fmt::format("shape: sizes as {}; int32 and int64 are accepted", name_of(dtype)));
  }
  if (x.shape().is_symbolic()) return op::apply_one(def, {x}, {{"dtype", dtype}});
  const std::vector<int64_t> sizes(x.shape().extents().begin(), x.shape().extents().end());
  return cast(Tensor::from(sizes, Shape{x.rank()}), dtype);
}

Tensor size(const Tensor& x, DType dtype) { return reduce_prod(shape(x, dtype)); }

Tensor expand_dims(const Tensor& x, int axis) {
  const int rank = x.rank();
  const int at = axis < 0 ? axis + rank + 1 : axis;
  if (at < 0 || at > rank) {
    throw InvalidArgument(fmt::format("expand_dims: axis {} is out of range for {}, [{},{}] is not",
                                      axis, x.shape().str(), -rank - 1, rank));
  }
  return ops::with_shape(x, x.shape().inserted(at, 1));
}

Tensor squeeze(const Tensor& x, const std::vector<int>& axes) {
  const Shape& shape = x.shape();
  std::vector<bool> gone(static_cast<size_t>(shape.rank()), false);
  for (int given : axes) {
    const int axis = ops::normalized_axis("squeeze", given, shape);
    if (shape[axis] != 1) {
      throw InvalidArgument(
          fmt::format("squeeze: axis {} of {} does not have size 1", given, shape.str()));
    }
    gone[static_cast<size_t>(axis)] = true;
  }
  std::vector<int64_t> kept;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axes.empty() ? shape[axis] != 1 : !gone[static_cast<size_t>(axis)]) {
      kept.push_back(shape.extent(axis));
    }
  }
  return ops::with_shape(x, Shape(kept));
}

Tensor transpose(const Tensor& x, const std::vector<int>& permutation) {
  static const op::OpDef& def = op::find_op("transpose");
  return op::apply_one(def, {x}, {{"permutation", ops::full_permutation(x, permutation)}});
}

Tensor tile(const Tensor& x, const std::vector<int64_t>& multiples) {
  const bool negative = std::ranges::any_of(multiples, [](int64_t m) { return m < 0; });
  if (static_cast<int>(multiples.size()) != x.rank() || negative) {
    throw InvalidArgument(
        fmt::format("tile: multiples [{}] for {}; one for each axis, none negative",
                    fmt::join(multiples, ","), x.shape().str()));
  }
  Tensor result = x;
  for (int axis = x.rank(); axis-- > 0;) {
    const int64_t times = multiples[static_cast<size_t>(axis)];
    if (times != 1) result = ops::repeated(result, axis, times);
  }
  return result;
}

Tensor cast(const Tensor& x, DType dtype) {
  static const op::OpDef& def = op::find_op("cast");
  return x.dtype() == dtype ? x : op::apply_one(def, {x}, {{"dtype", dtype}});
}

Tensor identity(const Tensor& x) {
  static const op::OpDef& def = op::find_op("identity");
  return op::apply_one(def, {x});
}

Tensor stop_gradient(const Tensor& x) {
  static const op::OpDef& def = op::find_op("stop_gradient");
  return op::apply_one(def, {x});
}

}  // namespace tandem
