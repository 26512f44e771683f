#include "op/apply.h"
#include "op/registry.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem {
namespace ops {
namespace {

op::TensorTypes infer(const op::Signature& s) {
  const DType dtype = s.attrs.get<DType>("dtype");
  if (dtype != DType::float32 && dtype != DType::float64) {
    throw InvalidArgument(s.op->name + ": dtype must be float32 or float64, not " +
                          std::string(name_of(dtype)));
  }
  return {{dtype, s.attrs.get<Shape>("shape")}};
}

/// Attributes a and b are mean and stddev, or minval and maxval. per_row is the number of elements
/// of one row of the batch where the shape follows the batch, so that a position counts within the
/// global batch; else 0.
Tensor draw(const op::OpDef& def, const Shape& shape, double a, double b,
            const RandomOptions& options) {
  const int64_t per_row = shape.is_symbolic() ? -shape.count() : 0;
  return op::apply_one(def, {},
                       {{"shape", shape},
                        {"dtype", options.dtype},
                        {"a", a},
                        {"b", b},
                        {"seed", static_cast<int64_t>(options.seed)},
                        {"per_row", per_row}});
}

}  // namespace

void register_random(op::Registry& registry) {
  for (const char* name : {"random_normal", "random_uniform"}) {
    registry.add({.name = name,
                  .infer = infer,
                  .split = op::split_rows,
                  .no_gradient = true,
                  .depends_on_run = true,
                  .is_random = true});
  }
}

}  // namespace ops

Tensor random_normal(const Shape& shape, double mean, double stddev, const RandomOptions& options) {
  static const op::OpDef& def = op::find_op("random_normal");
  return ops::draw(def, shape, mean, stddev, options);
}

Tensor random_uniform(const Shape& shape, double minval, double maxval,
                      const RandomOptions& options) {
  static const op::OpDef& def = op::find_op("random_uniform");
  return ops::draw(def, shape, minval, maxval, options);
}

}  // namespace tandem
