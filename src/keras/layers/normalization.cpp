// The layers BatchNormalization and LayerNormalization. Batch normalisation depends on all rows of
// the batch, so here is where the statistics of replicas meet: always for the moving statistics,
// and with `synchronized` for those that the rows are normalised by.
#include "tandem/ops/normalization.h"

#include <fmt/format.h>

#include "collective/collective.h"
#include "keras/layers/arguments.h"
#include "tandem/error.h"
#include "tandem/keras/layers.h"
#include "tandem/ops.h"

namespace tandem::keras::layers {
namespace {

struct Statistics {
  Tensor mean, variance;  // They have a value for each channel.
};

/// How many values each channel of `x` has: a scalar of its dtype. The rows of a replica are known
/// when it runs only.
Tensor values_per_channel(const Tensor& x) {
  std::vector<Stride> first(static_cast<size_t>(x.rank()), {.begin = 0, .end = 1});
  first[0] = {};
  const int64_t per_row = x.shape().without(0).without(x.rank() - 2).total_extent();
  return reduce_sum(ones_like(strided_slice(x, first))) * static_cast<double>(per_row);
}

/// The statistics of the rows of all replicas, from those of each. One meeting of them does: sums
/// of distances from a center that all know and that is near the mean give both, and a micro-batch
/// need not wait for the others in the middle of its passes.
Statistics about_center(const Tensor& x, const Statistics& own, const Tensor& center) {
  const Tensor count = values_per_channel(x);
  const Tensor distance = own.mean - center;
  const Tensors sums =
      collective::all_reduce({count, distance * count, (own.variance + square(distance)) * count});
  const Tensor total = maximum(sums[0], scalar_like(1, count));
  const Tensor shift = sums[1] / total;
  const Tensor variance = sums[2] / total - square(shift);
  return {center + shift, maximum(variance, scalar_like(0, variance))};
}

/// The same to the last digits, wherever the mean is, for rows that are scaled by it: first the
/// mean, then the mean square distance from it.
Statistics about_mean(const Tensor& x, const Statistics& own) {
  const Tensor count = values_per_channel(x);
  const Tensors sums = collective::all_reduce({count, own.mean * count});
  const Tensor total = maximum(sums[0], scalar_like(1, count));
  const Tensor mean = sums[1] / total;
  const Tensor distances = (own.variance + square(own.mean - mean)) * count;
  return {mean, collective::all_reduce({distances})[0] / total};
}

/// gamma and beta, or the constants in their places.
class ScaleAndCenter {
 public:
  Variable gamma, beta;

  Tensor scale(const Shape& shape, DType dtype) const {
    return gamma.defined() ? gamma.value() : ones(shape, dtype);
  }
  Tensor center(const Shape& shape, DType dtype) const {
    return beta.defined() ? beta.value() : zeros(shape, dtype);
  }
};

class BatchNormalizationBody final : public FloatingBody {
 public:
  explicit BatchNormalizationBody(BatchNormalizationOptions options)
      : FloatingBody("batch_normalization", options.name, options.input_shape),
        options_(std::move(options)) {}

  void build(const TensorSpecs& inputs) override {
    const TensorSpec& input = only(inputs);
    const Shape channels{width_of(input, 2)};
    if (options_.axis != -1 && options_.axis != input.shape.rank() - 1) {
      throw InvalidArgument(fmt::format("axis is {}, only the last, {} or -1, is accepted",
                                        options_.axis, input.shape.rank() - 1));
    }
    if (options_.scale) {
      weights_.gamma = add_weight("gamma", channels,
                                  {.initializer = options_.gamma_initializer,
                                   .regularizer = options_.gamma_regularizer,
                                   .constraint = options_.gamma_constraint,
                                   .dtype = input.dtype});
    }
    if (options_.center) {
      weights_.beta = add_weight("beta", channels,
                                 {.initializer = options_.beta_initializer,
                                  .regularizer = options_.beta_regularizer,
                                  .constraint = options_.beta_constraint,
                                  .dtype = input.dtype});
    }
    const auto moving = [&](const char* name, const Initializer& initializer) {
      return add_weight(name, channels,
                        {.initializer = initializer,
                         .trainable = false,
                         .dtype = input.dtype,
                         .aggregation = VariableAggregation::mean});
    };
    moving_mean_ = moving("moving_mean", options_.moving_mean_initializer);
    moving_variance_ = moving("moving_variance", options_.moving_variance_initializer);
  }

  Tensors call(const Tensors& inputs, const CallContext& context) override {
    const Tensor& x = only(inputs);
    const Tensor gamma = weights_.scale(moving_mean_.shape(), moving_mean_.dtype());
    const Tensor beta = weights_.center(moving_mean_.shape(), moving_mean_.dtype());
    const BatchNormOptions options{.epsilon = options_.epsilon};
    if (!context.training || !trainable()) {
      return {batch_norm_inference(x, gamma, beta, moving_mean_.value(), moving_variance_.value(),
                                   options)};
    }
    const BatchNorm own = batch_norm(x, gamma, beta, options);
    if (collective::group_size() == 1) {
      update({own.mean, own.variance});
      return {own.y};
    }
    if (!options_.synchronized) {
      update(about_center(x, {own.mean, own.variance}, moving_mean_.value()));
      return {own.y};
    }
    const Statistics all = about_mean(x, {own.mean, own.variance});
    update(all);
    return {batch_norm_inference(x, gamma, beta, all.mean, all.variance, options)};
  }

 private:
  void update(const Statistics& batch) const {
    const auto mix = [&](const Variable& moving, const Tensor& value) {
      update_weight(moving, [&](const Tensor& now) {
        return now * options_.momentum + value * (1 - options_.momentum);
      });
    };
    mix(moving_mean_, batch.mean);
    mix(moving_variance_, batch.variance);
  }

  BatchNormalizationOptions options_;
  ScaleAndCenter weights_;
  Variable moving_mean_, moving_variance_;
};

class LayerNormalizationBody final : public FloatingBody {
 public:
  explicit LayerNormalizationBody(LayerNormalizationOptions options)
      : FloatingBody("layer_normalization", options.name, options.input_shape),
        options_(std::move(options)) {}

  void build(const TensorSpecs& inputs) override {
    const TensorSpec& input = only(inputs);
    width_of(input, 2);
    const int rank = input.shape.rank();
    const int axis = options_.axis < 0 ? options_.axis + rank : options_.axis;
    if (axis < 1 || axis >= rank) {
      throw InvalidArgument(
          fmt::format("axis is {}; for the input {}, 1 to {} and -1 to {} are accepted",
                      options_.axis, input.shape.str(), rank - 1, 1 - rank));
    }
    shape_ = Shape(input.shape.extents().subspan(static_cast<size_t>(axis)));
    if (options_.scale) {
      weights_.gamma = add_weight("gamma", shape_,
                                  {.initializer = options_.gamma_initializer,
                                   .regularizer = options_.gamma_regularizer,
                                   .constraint = options_.gamma_constraint,
                                   .dtype = input.dtype});
    }
    if (options_.center) {
      weights_.beta = add_weight("beta", shape_,
                                 {.initializer = options_.beta_initializer,
                                  .regularizer = options_.beta_regularizer,
                                  .constraint = options_.beta_constraint,
                                  .dtype = input.dtype});
    }
  }

  Tensors call(const Tensors& inputs, const CallContext&) override {
    const Tensor& x = only(inputs);
    return {layer_norm(x, weights_.scale(shape_, x.dtype()), weights_.center(shape_, x.dtype()),
                       {.axis = -shape_.rank(), .epsilon = options_.epsilon})};
  }

 private:
  LayerNormalizationOptions options_;
  Shape shape_;
  ScaleAndCenter weights_;
};

template <class Options>
const Options& checked(const char* layer, const Options& options) {
  if (options.epsilon >= 0) return options;
  throw InvalidArgument(
      fmt::format("{}: epsilon is {}, at least 0 is needed", layer, options.epsilon));
}

const BatchNormalizationOptions& checked(const BatchNormalizationOptions& options) {
  if (!(options.momentum >= 0 && options.momentum <= 1)) {
    throw InvalidArgument(fmt::format(
        "batch_normalization: momentum is {}, a number within [0, 1] is needed", options.momentum));
  }
  return checked("batch_normalization", options);
}

}  // namespace

BatchNormalization::BatchNormalization(const BatchNormalizationOptions& options)
    : Layer(std::make_shared<BatchNormalizationBody>(checked(options))) {}

LayerNormalization::LayerNormalization(const LayerNormalizationOptions& options)
    : Layer(std::make_shared<LayerNormalizationBody>(checked("layer_normalization", options))) {}

}  // namespace tandem::keras::layers
