#include "keras/metrics/metric_functions.h"

#include <fmt/format.h>

#include "keras/losses/label_shapes.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem::keras::metrics {
namespace {

const ReduceOptions kLastAxis{.axes = {{-1}}};

/// Whether fewer than k classes have a higher score than the true one.
Tensor in_top_k(const Tensor& classes, const Tensor& scores, int k) {
  const int64_t depth = scores.shape().extents().back();
  const Tensor hot = one_hot(classes, depth, {.dtype = DType::boolean});
  const Tensor own =
      reduce_sum(where(hot, scores, zeros_like(scores)), {.axes = {{-1}}, .keepdims = true});
  const Tensor higher = reduce_sum(cast(greater(scores, own), DType::int32), kLastAxis);
  const Tensor sound =
      logical_and(reduce_any(hot, kLastAxis), reduce_all(is_finite(scores), kLastAxis));
  return logical_and(less(higher, scalar_like(k, higher)), sound);
}

void check_k(const std::string& name, int k) {
  if (k > 0) return;
  throw InvalidArgument(fmt::format("{}: k is {}; it must be positive", name, k));
}

}  // namespace

Metric::PerExample accuracy(const std::string& name) {
  return [binary = binary_accuracy(name, 0.5), sparse = sparse_categorical_accuracy(name),
          categorical = categorical_accuracy(name)](const Tensor& y_true, const Tensor& y_pred) {
    const auto last = [](const Tensor& x) { return x.rank() > 1 ? x.shape().extents().back() : 1; };
    if (last(y_pred) == 1) return binary(y_true, y_pred);
    const bool classes = y_true.rank() < y_pred.rank() || last(y_true) == 1;
    return classes ? sparse(y_true, y_pred) : categorical(y_true, y_pred);
  };
}

Metric::PerExample binary_accuracy(const std::string& name, double threshold) {
  return [=](const Tensor& y_true, const Tensor& y_pred) {
    const auto [truth, output] = alike(name, y_true, y_pred);
    const Tensor said = greater(output, scalar_like(threshold, output));
    return equal(truth, cast(said, truth.dtype()));
  };
}

Metric::PerExample categorical_accuracy(const std::string& name) {
  return [=](const Tensor& y_true, const Tensor& y_pred) {
    const auto [truth, scores] = distributions(name, y_true, y_pred);
    return equal(argmax(truth), argmax(scores));
  };
}

Metric::PerExample sparse_categorical_accuracy(const std::string& name) {
  return [=](const Tensor& y_true, const Tensor& y_pred) {
    const auto [classes, scores] = classes_and_scores(name, y_true, y_pred);
    const Tensor said = argmax(scores);
    // A label such as 1.5 is no class.
    if (is_floating(classes.dtype())) {
      return equal(as_dtype(classes, DType::float64), cast(said, DType::float64));
    }
    return equal(as_dtype(classes, DType::int64), said);
  };
}

Metric::PerExample top_k_categorical_accuracy(const std::string& name, int k) {
  check_k(name, k);
  return [=](const Tensor& y_true, const Tensor& y_pred) {
    const auto [truth, scores] = distributions(name, y_true, y_pred);
    return in_top_k(argmax(truth), scores, k);
  };
}

Metric::PerExample sparse_top_k_categorical_accuracy(const std::string& name, int k) {
  check_k(name, k);
  return [=](const Tensor& y_true, const Tensor& y_pred) {
    const auto [classes, scores] = classes_and_scores(name, y_true, y_pred);
    return in_top_k(as_dtype(classes, DType::int64), scores, k);
  };
}

}  // namespace tandem::keras::metrics
