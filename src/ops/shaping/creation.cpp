// Tensors of numbers that are not computed from others: fill, zeros and ones, eye, range.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "op/apply.h"
#include "op/registry.h"
#include "ops/shaping/exact_shape.h"
#include "tandem/error.h"
#include "tandem/ops.h"
#include "tensor/body.h"

namespace tandem {
namespace ops {
namespace {

op::TensorTypes infer_fill(const op::Signature& s) {
  check_decided(s.op->name, s.attrs.get<Shape>("shape"));
  return {{s.attrs.get<DType>("dtype"), s.attrs.get<Shape>("shape")}};
}

void check_range(double start, double limit, double delta, DType dtype) {
  if (!std::isfinite(start) || !std::isfinite(limit) || !std::isfinite(delta) || delta == 0) {
    throw InvalidArgument(fmt::format(
        "range: from {} to {} by {}; all must be finite and the last not 0", start, limit, delta));
  }
  if (!is_floating(dtype) && (start != std::floor(start) || delta != std::floor(delta))) {
    throw InvalidArgument(fmt::format("range: from {} by {} has fractions, which {} has not", start,
                                      delta, name_of(dtype)));
  }
}

/// A number as a size; what is too large for any is refused by Shape.
int64_t size_of(double count) {
  constexpr double kEnd = 0x1p63;
  return count < kEnd ? static_cast<int64_t>(count) : std::numeric_limits<int64_t>::max();
}

}  // namespace

void register_creation(op::Registry& registry) {
  registry.add({.name = "fill", .infer = infer_fill, .split = op::split_rows, .no_gradient = true});
}

}  // namespace ops

Tensor fill(const Shape& shape, double value, DType dtype) {
  static const op::OpDef& def = op::find_op("fill");
  return op::apply_one(def, {}, {{"shape", shape}, {"value", value}, {"dtype", dtype}});
}

Tensor zeros(const Shape& shape, DType dtype) { return fill(shape, 0, dtype); }
Tensor ones(const Shape& shape, DType dtype) { return fill(shape, 1, dtype); }
Tensor zeros_like(const Tensor& x) { return fill(x.shape(), 0, x.dtype()); }
Tensor ones_like(const Tensor& x) { return fill(x.shape(), 1, x.dtype()); }

Tensor eye(int64_t rows, int64_t columns, DType dtype) {
  if (rows < 0 || columns < -1) {
    throw InvalidArgument(
        fmt::format("eye: {} rows and {} columns; sizes are not negative", rows, columns));
  }
  const Shape shape{rows, columns < 0 ? rows : columns};
  const Tensor diagonal = range(0, static_cast<double>(rows), 1, DType::int64);
  return one_hot(diagonal, shape[1], {.dtype = dtype});
}

Tensor range(double start, double limit, double delta, DType dtype) {
  ops::check_range(start, limit, delta, dtype);
  const double count = std::max(0.0, std::ceil((limit - start) / delta));
  const Shape shape{ops::size_of(count)};
  const auto body = new_body(devices::host_device(), DType::float64, shape);
  auto* values = static_cast<double*>(body->data());
  for (int64_t i = 0; i < shape[0]; ++i) values[i] = start + static_cast<double>(i) * delta;
  return cast(Tensor(body), dtype);
}

}  // namespace tandem
