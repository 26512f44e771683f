#include "keras/losses/loss_functions.h"

#include <fmt/format.h>

#include "collective/parts.h"
#include "keras/losses/crossentropy_of_parts.h"
#include "keras/losses/label_shapes.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem::keras::losses {
namespace {

const ReduceOptions kLastAxis{.axes = {{-1}}};

/// Probabilities, kept where their logarithm is finite.
Tensor clipped(const Tensor& probabilities) {
  constexpr double kEpsilon = 1e-7;
  return clip(probabilities, kEpsilon, 1 - kEpsilon);
}

/// Truths with `smoothing` of each given to its neighbours, of which `even` is one's share.
Tensor smoothed(const Tensor& y_true, double smoothing, double even) {
  return smoothing == 0 ? y_true : y_true * (1 - smoothing) + smoothing * even;
}

void check_smoothing(const std::string& name, double smoothing) {
  if (smoothing >= 0 && smoothing <= 1) return;
  throw InvalidArgument(fmt::format("{}: label_smoothing {} is not in [0, 1]", name, smoothing));
}

}  // namespace

Loss::PerExample categorical_crossentropy(const std::string& name, bool from_logits,
                                          double label_smoothing) {
  check_smoothing(name, label_smoothing);
  return [=](const Tensor& y_true, const Tensor& y_pred) {
    auto [truth, output] = distributions(name, y_true, y_pred);
    const auto classes = static_cast<double>(output.shape().extents().back());
    truth = smoothed(truth, label_smoothing, 1 / classes);
    if (from_logits) return softmax_cross_entropy_with_logits(truth, output);
    const Tensor whole = reduce_sum(output, {.axes = {{-1}}, .keepdims = true});
    return neg(reduce_sum(truth * log(clipped(output / whole)), kLastAxis));
  };
}

Loss::PerExample sparse_categorical_crossentropy(const std::string& name, bool from_logits) {
  return [=](const Tensor& y_true, const Tensor& y_pred) {
    auto [classes, scores] = classes_and_scores(name, y_true, y_pred);
    if (classes.dtype() != DType::int32) classes = as_dtype(classes, DType::int64);
    if (!from_logits) scores = log(clipped(scores));
    if (collective::cut_axis(scores) >= 0) return sparse_crossentropy_of_parts(classes, scores);
    return sparse_softmax_cross_entropy_with_logits(classes, scores);
  };
}

Loss::PerExample binary_crossentropy(const std::string& name, bool from_logits,
                                     double label_smoothing) {
  check_smoothing(name, label_smoothing);
  return [=](const Tensor& y_true, const Tensor& y_pred) {
    auto [truth, output] = alike(name, y_true, y_pred);
    truth = smoothed(truth, label_smoothing, 0.5);
    if (from_logits) {
      return reduce_mean(sigmoid_cross_entropy_with_logits(truth, output), kLastAxis);
    }
    const Tensor p = clipped(output);
    return neg(reduce_mean(truth * log(p) + (1.0 - truth) * log(1.0 - p), kLastAxis));
  };
}

Loss::PerExample mean_squared_error(const std::string& name) {
  return [=](const Tensor& y_true, const Tensor& y_pred) {
    const auto [truth, output] = alike(name, y_true, y_pred);
    return reduce_mean(squared_difference(truth, output), kLastAxis);
  };
}

Loss::PerExample mean_absolute_error(const std::string& name) {
  return [=](const Tensor& y_true, const Tensor& y_pred) {
    const auto [truth, output] = alike(name, y_true, y_pred);
    return reduce_mean(abs(truth - output), kLastAxis);
  };
}

Loss::PerExample huber(const std::string& name, double delta) {
  if (!(delta > 0)) throw InvalidArgument(fmt::format("{}: delta {} is not positive", name, delta));
  return [=](const Tensor& y_true, const Tensor& y_pred) {
    const auto [truth, output] = alike(name, y_true, y_pred);
    const Tensor error = output - truth;
    const Tensor size = abs(error);
    const Tensor near = less_equal(size, scalar_like(delta, size));
    const Tensor line = size * delta - 0.5 * delta * delta;
    return reduce_mean(where(near, square(error) * 0.5, line), kLastAxis);
  };
}

}  // namespace tandem::keras::losses
