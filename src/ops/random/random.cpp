// The ops that draw from distributions. Which numbers a call draws depends on the seeds, the call's
// number and the element's place in the global batch (kernels/cpu/random/random_source.h), never on
// threads or devices.
#include "tandem/ops/random.h"

#include <fmt/format.h>

#include <cmath>

#include "core/compute_scope.h"
#include "op/apply.h"
#include "op/registry.h"
#include "ops/random/batch_axis.h"
#include "ops/random/random_elements.h"
#include "ops/shaping/exact_shape.h"
#include "runtime/prepared_kernels.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem {
namespace ops {
namespace {

op::TensorTypes infer_drawn(const op::Signature& s) {
  check_decided(s.op->name, s.attrs.get<Shape>("shape"));
  return {{s.attrs.get<DType>("dtype"), s.attrs.get<Shape>("shape")}};
}

void check_floating(const char* op, DType dtype) {
  if (dtype == DType::float32 || dtype == DType::float64) return;
  throw InvalidArgument(
      fmt::format("{}: dtype must be float32 or float64, not {}", op, name_of(dtype)));
}

/// Attributes a and b are mean and stddev, or minval and maxval.
op::Attrs attributes(const Shape& shape, double a, double b, const RandomOptions& options,
                     const BatchAxis& batch) {
  return {{"shape", shape},
          {"dtype", options.dtype},
          {"a", a},
          {"b", b},
          {"seeded", options.seed.has_value()},
          {"seed", static_cast<int64_t>(options.seed.value_or(0))},
          {"batch_axis", batch.axis},
          {"per_row", batch.per_row}};
}

Tensor draw(const op::OpDef& def, const Shape& shape, double a, double b,
            const RandomOptions& options) {
  return op::apply_one(def, {}, attributes(shape, a, b, options, batch_axis_of(shape)));
}

/// The bound of a uniform draw of whole numbers.
int64_t whole(double bound) {
  if (bound != std::floor(bound) || std::abs(bound) > 0x1p53) {
    throw InvalidArgument(
        fmt::format("random_uniform: {} is no bound of whole numbers; random_integers takes the "
                    "whole range of int64",
                    bound));
  }
  return static_cast<int64_t>(bound);
}

void check_integers(int64_t minval, int64_t maxval, DType dtype) {
  if (dtype != DType::int32 && dtype != DType::int64) {
    throw InvalidArgument(
        fmt::format("random_integers: dtype must be int32 or int64, not {}", name_of(dtype)));
  }
  if (minval >= maxval) {
    throw InvalidArgument(
        fmt::format("random_integers: [{}, {}) has no numbers in it", minval, maxval));
  }
  if (dtype == DType::int32 && (minval < INT32_MIN || maxval > int64_t{INT32_MAX} + 1)) {
    throw InvalidArgument(
        fmt::format("random_integers: [{}, {}) does not fit into int32", minval, maxval));
  }
}

}  // namespace

BatchAxis batch_axis_of(const Shape& shape) {
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape.extent(axis) < 0) return {axis, -shape.extent(axis)};
  }
  return {};
}

/// The elements are the rows of a batch, of which it has some.
void draw_elements(const RandomCall& call, int64_t begin, int64_t count, void* to) {
  const Shape shape{count};
  const op::Signature signature{
      .op = &op::find_op(call.op),
      .inputs = {},
      .outputs = {{call.options.dtype, shape}},
      .attrs = attributes(shape, call.a, call.b, call.options, {.axis = 0, .per_row = 1}),
      .ranges = {}};
  const runtime::PreparedKernel prepared =
      runtime::PreparedKernels::instance().get(signature, *devices::host_device());
  const op::StepScalars step{.rows = count,
                             .row_offset = begin,
                             .global_rows = begin + count,
                             .replica = 0,
                             .replicas = 1,
                             .random = call.run};
  void* const addresses[] = {to};
  const int operands[] = {0};
  op::Launch launch;
  launch.addresses = addresses;
  launch.operands = operands;
  launch.outputs = 1;
  launch.parts = prepared.parts;
  launch.step = &step;
  const core::ComputeScope computing;
  prepared.executable->play(launch, {.count = prepared.parts});
}

void register_random(op::Registry& registry) {
  for (const char* name : {"random_normal", "random_truncated_normal", "random_uniform",
                           "random_integers", "random_bernoulli"}) {
    registry.add({.name = name,
                  .infer = infer_drawn,
                  .split = op::split_rows,
                  .no_gradient = true,
                  .depends_on_run = true,
                  .is_random = true});
  }
}

}  // namespace ops

Tensor random_normal(const Shape& shape, double mean, double stddev, const RandomOptions& options) {
  static const op::OpDef& def = op::find_op("random_normal");
  ops::check_floating("random_normal", options.dtype);
  return ops::draw(def, shape, mean, stddev, options);
}

Tensor random_truncated_normal(const Shape& shape, double mean, double stddev,
                               const RandomOptions& options) {
  static const op::OpDef& def = op::find_op("random_truncated_normal");
  ops::check_floating("random_truncated_normal", options.dtype);
  return ops::draw(def, shape, mean, stddev, options);
}

Tensor random_uniform(const Shape& shape, double minval, double maxval,
                      const RandomOptions& options) {
  static const op::OpDef& def = op::find_op("random_uniform");
  if (options.dtype == DType::int32 || options.dtype == DType::int64) {
    return random_integers(shape, ops::whole(minval), ops::whole(maxval),
                           {.dtype = options.dtype, .seed = options.seed});
  }
  ops::check_floating("random_uniform", options.dtype);
  return ops::draw(def, shape, minval, maxval, options);
}

Tensor random_integers(const Shape& shape, int64_t minval, int64_t maxval,
                       const RandomIntegersOptions& options) {
  static const op::OpDef& def = op::find_op("random_integers");
  ops::check_integers(minval, maxval, options.dtype);
  const ops::BatchAxis batch = ops::batch_axis_of(shape);
  return op::apply_one(def, {},
                       {{"shape", shape},
                        {"dtype", options.dtype},
                        {"minval", minval},
                        {"maxval", maxval},
                        {"seeded", options.seed.has_value()},
                        {"seed", static_cast<int64_t>(options.seed.value_or(0))},
                        {"batch_axis", batch.axis},
                        {"per_row", batch.per_row}});
}

Tensor random_bernoulli(const Shape& shape, double p, const RandomBernoulliOptions& options) {
  static const op::OpDef& def = op::find_op("random_bernoulli");
  if (!(p >= 0 && p <= 1)) {
    throw InvalidArgument(fmt::format("random_bernoulli: p is {}, not within [0, 1]", p));
  }
  return cast(ops::draw(def, shape, p, 0, {.dtype = DType::boolean, .seed = options.seed}),
              options.dtype);
}

}  // namespace tandem
