// gather, its reverse and gradient scatter_add_rows, and one_hot. The gradient of a gather of rows
// is row-sparse (tensor/row_slices.h): it costs in proportion to the rows that were gathered.
#include <fmt/format.h>

#include "op/apply.h"
#include "op/registry.h"
#include "ops/shaping/broadcast.h"
#include "ops/shaping/exact_shape.h"
#include "tandem/error.h"
#include "tandem/ops.h"
#include "tensor/row_slices.h"

namespace tandem {
namespace ops {
namespace {

using op::Call;
using op::Signature;

int axis_of(const op::Attrs& attrs) { return static_cast<int>(attrs.get<int64_t>("axis")); }

void check_indices(const char* op, DType dtype) {
  if (dtype == DType::int32 || dtype == DType::int64) return;
  throw InvalidArgument(
      fmt::format("{}: indices are {}; int32 and int64 are supported", op, name_of(dtype)));
}

/// x[.., axis, ..] with the axes of the indices in the place of that axis.
Shape gathered_shape(const Shape& x, const Shape& indices, int axis) {
  const auto from = x.extents();
  std::vector<int64_t> sizes(from.begin(), from.begin() + axis);
  sizes.insert(sizes.end(), indices.extents().begin(), indices.extents().end());
  sizes.insert(sizes.end(), from.begin() + axis + 1, from.end());
  return Shape(sizes);
}

op::TensorTypes infer_gather(const Signature& s) {
  check_indices("gather", s.inputs[1].dtype);
  return {
      {s.inputs[0].dtype, gathered_shape(s.inputs[0].shape, s.inputs[1].shape, axis_of(s.attrs))}};
}

/// The result's rows are those of the indices, or of x where another axis is indexed.
op::Split split_gather(const Signature& s) {
  const bool leading = axis_of(s.attrs) == 0;
  return {.extent = s.outputs[0].shape.leading_extent(),
          .aligned = {!leading, leading && s.inputs[1].shape.rank() > 0}};
}

Tensor scatter_add_rows(const Tensor& values, const Tensor& indices, const Shape& shape, int axis) {
  static const op::OpDef& def = op::find_op("scatter_add_rows");
  return op::apply_one(def, {values, indices}, {{"shape", shape}, {"axis", int64_t{axis}}});
}

/// Along the leading axis the gradient has only the rows that were gathered; they add up when
/// somebody needs all.
Tensors gather_gradient(const Call& call, const Tensors& g) {
  const Shape& shape = call.inputs[0].shape();
  const Tensor& indices = call.inputs[1];
  if (axis_of(call.attrs) != 0) {
    return {scatter_add_rows(g[0], indices, shape, axis_of(call.attrs)), Tensor()};
  }
  const Shape rows{indices.shape().total_extent()};
  return {row_sparse(shape, with_shape(indices, rows), with_shape(g[0], shape.with(0, rows[0]))),
          Tensor()};
}

/// Zeros of attribute "shape", to which the values are added at the places that the indices name.
op::TensorTypes infer_scatter(const Signature& s) {
  check_indices("scatter_add_rows", s.inputs[1].dtype);
  return {{s.inputs[0].dtype, s.attrs.get<Shape>("shape")}};
}

/// A thread looks at all indices for those that fall into its own rows.
op::Split split_scatter(const Signature& s) {
  return {.extent = s.outputs[0].shape.leading_extent(), .aligned = {axis_of(s.attrs) != 0, false}};
}

Tensors scatter_gradient(const Call& call, const Tensors& g) {
  return {gather(g[0], call.inputs[1], axis_of(call.attrs)), Tensor()};
}

op::TensorTypes infer_one_hot(const Signature& s) {
  check_indices("one_hot", s.inputs[0].dtype);
  const Shape& indices = s.inputs[0].shape;
  return {{s.attrs.get<DType>("dtype"),
           indices.inserted(indices.rank(), s.attrs.get<int64_t>("depth"))}};
}

op::Split split_one_hot(const Signature& s) {
  return {.extent = s.outputs[0].shape.leading_extent(), .aligned = {s.inputs[0].shape.rank() > 0}};
}

}  // namespace

void register_indexing(op::Registry& registry) {
  registry.add({.name = "gather",
                .infer = infer_gather,
                .split = split_gather,
                .gradient = gather_gradient});
  registry.add({.name = "scatter_add_rows",
                .infer = infer_scatter,
                .split = split_scatter,
                .gradient = scatter_gradient});
  registry.add(
      {.name = "one_hot", .infer = infer_one_hot, .split = split_one_hot, .no_gradient = true});
}

}  // namespace ops

Tensor gather(const Tensor& x, const Tensor& indices, int axis) {
  static const op::OpDef& def = op::find_op("gather");
  return op::apply_one(def, {x, indices},
                       {{"axis", int64_t{ops::normalized_axis("gather", axis, x.shape())}}});
}

Tensor one_hot(const Tensor& indices, int64_t depth, const OneHotOptions& options) {
  static const op::OpDef& def = op::find_op("one_hot");
  if (depth < 0) throw InvalidArgument(fmt::format("one_hot: depth {} is negative", depth));
  return op::apply_one(
      def, {indices},
      {{"depth", depth}, {"on", options.on}, {"off", options.off}, {"dtype", options.dtype}});
}

}  // namespace tandem
