// Tensors put together (concat, stack) and taken apart (split, unstack) along an axis. Only concat
// is an op; the others are made of it and of slices.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "core/sizes.h"
#include "op/apply.h"
#include "op/registry.h"
#include "ops/shaping/axis_slice.h"
#include "ops/shaping/broadcast.h"
#include "ops/shaping/exact_shape.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem {
namespace ops {
namespace {

using op::Call;
using op::Signature;

int axis_of(const op::Attrs& attrs) { return static_cast<int>(attrs.get<int64_t>("axis")); }

/// True when the two may be joined along `axis`.
bool joins(const op::TensorType& a, const op::TensorType& b, int axis) {
  return a.dtype == b.dtype && a.shape.rank() == b.shape.rank() &&
         a.shape.with(axis, 0) == b.shape.with(axis, 0);
}

op::TensorTypes infer_concat(const Signature& s) {
  const int axis = axis_of(s.attrs);
  const op::TensorType& first = s.inputs[0];
  int64_t size = 0;
  for (const op::TensorType& input : s.inputs) {
    if (!joins(first, input, axis)) {
      throw InvalidArgument(fmt::format("concat: {} and {} do not join along axis {}", first.str(),
                                        input.str(), axis));
    }
    // Sizes known and unknown have no sum.
    const int64_t own = input.shape.extent(axis);
    if (std::min(size, own) < 0 && std::max(size, own) > 0) {
      throw InvalidArgument(fmt::format("concat: axis {} of {} is the batch's, of {} it is not",
                                        axis, first.shape.str(), input.shape.str()));
    }
    size = size_sum(size, own);
  }
  return {{first.dtype, first.shape.with(axis, size)}};
}

/// Along any axis but the leading one a thread reads its own rows.
op::Split split_concat(const Signature& s) {
  return {.extent = s.outputs[0].shape.leading_extent(),
          .aligned = std::vector<bool>(s.inputs.size(), axis_of(s.attrs) != 0)};
}

Tensors concat_gradient(const Call& call, const Tensors& g) {
  const int axis = axis_of(call.attrs);
  std::vector<int64_t> sizes;
  for (const Tensor& input : call.inputs) sizes.push_back(input.shape().extent(axis));
  if (sizes.size() == 1) return {g[0]};
  Tensors gradients;
  int64_t begin = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    gradients.push_back(call.needed[i] ? part_along(g[0], axis, begin, sizes[i]) : Tensor());
    begin += sizes[i];
  }
  return gradients;
}

Tensors cut(const Tensor& x, const std::vector<int64_t>& sizes, int axis) {
  Tensors parts;
  int64_t begin = 0;
  for (int64_t size : sizes) {
    parts.push_back(part_along(x, axis, begin, size));
    begin += size;
  }
  return parts;
}

/// So many parts of one size. An axis of which nothing is in memory might be cut into any number.
std::vector<int64_t> equal_sizes(const char* op, int64_t parts, int64_t size) {
  constexpr int64_t kMostParts = int64_t{1} << 20;
  if (parts > kMostParts) {
    throw InvalidArgument(fmt::format("{}: {} parts; at most 2^20 are supported", op, parts));
  }
  return std::vector<int64_t>(static_cast<size_t>(parts), size);
}

int64_t size_to_cut(const char* op, const Tensor& x, int axis) {
  const int64_t size = x.shape().extent(axis);
  if (size >= 0) return size;
  throw InvalidArgument(fmt::format("{}: axis {} of {} is the batch's, whose size is not known", op,
                                    axis, x.shape().str()));
}

}  // namespace

void register_joining(op::Registry& registry) {
  registry.add({.name = "concat",
                .infer = infer_concat,
                .split = split_concat,
                .gradient = concat_gradient});
}

}  // namespace ops

Tensor concat(const Tensors& tensors, int axis) {
  static const op::OpDef& def = op::find_op("concat");
  if (tensors.empty()) throw InvalidArgument("concat: no tensors are given");
  return op::apply_one(
      def, tensors, {{"axis", int64_t{ops::normalized_axis("concat", axis, tensors[0].shape())}}});
}

Tensor stack(const Tensors& tensors, int axis) {
  if (tensors.empty()) throw InvalidArgument("stack: no tensors are given");
  const int rank = tensors[0].rank();
  const int at = axis < 0 ? axis + rank + 1 : axis;
  if (at < 0 || at > rank) {
    throw InvalidArgument(fmt::format("stack: axis {} is out of range for tensors of {}", axis,
                                      tensors[0].shape().str()));
  }
  Tensors expanded;
  for (const Tensor& tensor : tensors) {
    if (tensor.shape() != tensors[0].shape()) {
      throw InvalidArgument(fmt::format("stack: shapes differ, {} and {}", tensors[0].shape().str(),
                                        tensor.shape().str()));
    }
    expanded.push_back(expand_dims(tensor, at));
  }
  return concat(expanded, at);
}

Tensors split(const Tensor& x, int parts, int axis) {
  const int at = ops::normalized_axis("split", axis, x.shape());
  const int64_t size = ops::size_to_cut("split", x, at);
  if (parts < 1 || size % parts != 0) {
    throw InvalidArgument(fmt::format("split: axis {} of {} does not divide into {} equal parts",
                                      axis, x.shape().str(), parts));
  }
  return ops::cut(x, ops::equal_sizes("split", parts, size / parts), at);
}

Tensors split(const Tensor& x, const std::vector<int64_t>& sizes, int axis) {
  const int at = ops::normalized_axis("split", axis, x.shape());
  const int64_t size = ops::size_to_cut("split", x, at);
  std::vector<int64_t> complete = sizes;
  const auto open = std::ranges::find(complete, -1);
  if (open != complete.end()) {
    *open = 0;
    *open = size - std::accumulate(complete.begin(), complete.end(), int64_t{0});
  }
  const bool negative = std::ranges::any_of(complete, [](int64_t s) { return s < 0; });
  if (negative || std::accumulate(complete.begin(), complete.end(), int64_t{0}) != size) {
    throw InvalidArgument(fmt::format("split: sizes [{}] do not add up to axis {} of {}",
                                      fmt::join(sizes, ","), axis, x.shape().str()));
  }
  return ops::cut(x, complete, at);
}

Tensors unstack(const Tensor& x, int axis) {
  const int at = ops::normalized_axis("unstack", axis, x.shape());
  const int64_t size = ops::size_to_cut("unstack", x, at);
  Tensors parts = ops::cut(x, ops::equal_sizes("unstack", size, 1), at);
  for (Tensor& part : parts) part = ops::with_shape(part, x.shape().without(at));
  return parts;
}

}  // namespace tandem
