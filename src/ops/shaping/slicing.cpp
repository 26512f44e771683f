// Two ops, each the other's gradient. strided_slice: out[i] = x[begin + i * step]. place: the
// reverse, out[begin + i * step] = x[i], and a value elsewhere. Both have along each axis
// attributes "begin" and "step", and "shape", the shape of the result, in which a batch axis that
// is whole (begin 0, step 1) may be symbolic.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "core/sizes.h"
#include "op/apply.h"
#include "op/registry.h"
#include "ops/shaping/axis_slice.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem {
namespace ops {
namespace {

using op::Call;
using op::Signature;
using List = std::vector<int64_t>;

struct Cut {
  List begin;
  List step;
  Shape shape;
};

Cut whole(const Shape& shape) {
  const auto rank = static_cast<size_t>(shape.rank());
  return {List(rank, 0), List(rank, 1), shape};
}

op::TensorTypes infer(const Signature& s) {
  return {{s.inputs[0].dtype, s.attrs.get<Shape>("shape")}};
}

/// A thread reads its own rows only where the leading axis is whole.
op::Split split(const Signature& s) {
  const Shape& from = s.inputs[0].shape;
  const Shape& to = s.outputs[0].shape;
  const bool leading_whole = from.rank() > 0 && from.extent(0) == to.extent(0) &&
                             s.attrs.get<List>("begin")[0] == 0 &&
                             s.attrs.get<List>("step")[0] == 1;
  return {.extent = to.leading_extent(), .aligned = {leading_whole}};
}

bool is_whole(const Cut& cut, const Shape& shape) {
  return cut.shape == shape && std::ranges::all_of(cut.begin, [](int64_t b) { return b == 0; }) &&
         std::ranges::all_of(cut.step, [](int64_t s) { return s == 1; });
}

Tensor apply_slice(const Tensor& x, const Cut& cut) {
  static const op::OpDef& def = op::find_op("strided_slice");
  if (is_whole(cut, x.shape())) return identity(x);
  return op::apply_one(def, {x}, {{"begin", cut.begin}, {"step", cut.step}, {"shape", cut.shape}});
}

Tensor apply_place(const Tensor& x, const Cut& cut, double value) {
  static const op::OpDef& def = op::find_op("place");
  return op::apply_one(
      def, {x}, {{"begin", cut.begin}, {"step", cut.step}, {"shape", cut.shape}, {"value", value}});
}

/// The cut of the gradient: the same places, the other shape.
Cut reversed(const Call& call) {
  return {call.attrs.get<List>("begin"), call.attrs.get<List>("step"), call.inputs[0].shape()};
}

Tensors slice_gradient(const Call& call, const Tensors& g) {
  return {apply_place(g[0], reversed(call), 0)};
}

Tensors place_gradient(const Call& call, const Tensors& g) {
  return {apply_slice(g[0], reversed(call))};
}

[[noreturn]] void throw_batch_axis(const char* op, int axis, const Shape& shape) {
  throw InvalidArgument(fmt::format(
      "{}: axis {} of {} is the batch's, whose size is not known while tracing; it may only stay "
      "whole",
      op, axis, shape.str()));
}

void check_one_each(const char* op, size_t given, const Shape& shape) {
  if (static_cast<int>(given) == shape.rank()) return;
  throw InvalidArgument(
      fmt::format("{}: {} entries for {}; one is needed for each axis", op, given, shape.str()));
}

/// The place where a stride of a known axis begins, and how many elements it has.
std::pair<int64_t, int64_t> resolved(const Stride& stride, int64_t size) {
  const bool forward = stride.step > 0;
  const int64_t low = forward ? 0 : -1;
  const int64_t high = forward ? size : size - 1;
  const auto position = [&](const std::optional<int64_t>& given, int64_t otherwise) {
    if (!given) return otherwise;
    return std::clamp(*given < 0 ? *given + size : *given, low, high);
  };
  const int64_t begin = position(stride.begin, forward ? low : high);
  const int64_t end = position(stride.end, forward ? high : low);
  const int64_t distance = forward ? end - begin : begin - end;
  if (distance <= 0) return {begin, 0};
  const int64_t least = -std::numeric_limits<int64_t>::max();
  return {begin, (distance - 1) / std::abs(std::max(stride.step, least)) + 1};
}

}  // namespace

void register_slicing(op::Registry& registry) {
  registry.add(
      {.name = "strided_slice", .infer = infer, .split = split, .gradient = slice_gradient});
  registry.add({.name = "place", .infer = infer, .split = split, .gradient = place_gradient});
}

Tensor part_along(const Tensor& x, int axis, int64_t begin, int64_t size) {
  const Shape& shape = x.shape();
  if (begin == 0 && size == shape.extent(axis)) return identity(x);
  if (shape.extent(axis) < 0) throw_batch_axis("slice", axis, shape);
  Cut cut = whole(shape.with(axis, size));
  cut.begin[static_cast<size_t>(axis)] = begin;
  return apply_slice(x, cut);
}

}  // namespace ops

Tensor slice(const Tensor& x, const std::vector<int64_t>& begin, const std::vector<int64_t>& size) {
  const Shape& shape = x.shape();
  ops::check_one_each("slice", begin.size(), shape);
  ops::check_one_each("slice", size.size(), shape);
  ops::Cut cut = ops::whole(shape);
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const auto i = static_cast<size_t>(axis);
    if (begin[i] == 0 && size[i] == -1) continue;
    if (shape.extent(axis) < 0) ops::throw_batch_axis("slice", axis, shape);
    const int64_t count = size[i] == -1 ? shape.extent(axis) - begin[i] : size[i];
    if (begin[i] < 0 || count < 0 || begin[i] > shape.extent(axis) - count) {
      throw InvalidArgument(fmt::format("slice: begin [{}] and size [{}] are not within {}",
                                        fmt::join(begin, ","), fmt::join(size, ","), shape.str()));
    }
    cut.begin[i] = begin[i];
    cut.shape = cut.shape.with(axis, count);
  }
  return ops::apply_slice(x, cut);
}

Tensor strided_slice(const Tensor& x, const std::vector<Stride>& strides) {
  const Shape& shape = x.shape();
  if (static_cast<int>(strides.size()) > shape.rank()) {
    throw InvalidArgument(
        fmt::format("strided_slice: {} strides for {}", strides.size(), shape.str()));
  }
  ops::Cut cut = ops::whole(shape);
  for (size_t i = 0; i < strides.size(); ++i) {
    const Stride& stride = strides[i];
    const auto axis = static_cast<int>(i);
    if (stride.step == 0) {
      throw InvalidArgument(fmt::format("strided_slice: the step along axis {} is 0", axis));
    }
    if (stride.begin.value_or(0) == 0 && !stride.end && stride.step == 1) continue;
    if (shape.extent(axis) < 0) ops::throw_batch_axis("strided_slice", axis, shape);
    const auto [begin, count] = ops::resolved(stride, shape.extent(axis));
    cut.begin[i] = begin;
    cut.step[i] = count > 1 ? stride.step : 1;  // A step of any size is no further than the end.
    cut.shape = cut.shape.with(axis, count);
  }
  return ops::apply_slice(x, cut);
}

Tensor pad(const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& paddings,
           const PadOptions& options) {
  const Shape& shape = x.shape();
  ops::check_one_each("pad", paddings.size(), shape);
  ops::Cut cut = ops::whole(shape);
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const auto i = static_cast<size_t>(axis);
    const auto [before, after] = paddings[i];
    if (before < 0 || after < 0) {
      throw InvalidArgument(fmt::format("pad: {} and {} elements along axis {} of {}; at least 0",
                                        before, after, axis, shape.str()));
    }
    if (before == 0 && after == 0) continue;
    if (shape.extent(axis) < 0) ops::throw_batch_axis("pad", axis, shape);
    cut.begin[i] = before;
    cut.shape = cut.shape.with(axis, size_sum(size_sum(before, shape.extent(axis)), after));
  }
  return ops::apply_place(x, cut, options.value);
}

}  // namespace tandem
