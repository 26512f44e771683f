// The option class_weight of fit: from a weight for each class a weight for each example.
#include <fmt/format.h>

#include <vector>

#include "keras/losses/label_shapes.h"
#include "tandem/error.h"
#include "tandem/keras/losses.h"
#include "tandem/ops.h"

namespace tandem::keras {
namespace {

/// [batch, ..] as int64, from classes or one-hot rows.
Tensor classes_of(const Tensor& y_true) {
  const Shape& shape = y_true.shape();
  Tensor classes = y_true.dtype() == DType::boolean ? cast(y_true, DType::uint8) : y_true;
  if (shape.rank() > 1) {
    const bool column = shape.extent(shape.rank() - 1) == 1;
    classes = column ? squeeze(classes, {-1}) : argmax(classes);
  }
  if (classes.dtype() == DType::float32 || classes.dtype() == DType::float64) {
    classes = round(classes);
  }
  return as_dtype(classes, DType::int64);
}

}  // namespace

Tensor sample_weights_of(const std::map<int64_t, double>& class_weight, const Tensor& y_true) {
  constexpr int64_t kMostClasses = int64_t{1} << 24;
  int64_t count = 0;
  for (const auto& [label, weight] : class_weight) {
    if (label < 0 || label > kMostClasses) {
      throw InvalidArgument(
          fmt::format("class_weight: class {} is not in [0, {}]", label, kMostClasses));
    }
    count = label + 1;
  }
  // One place more at each end, for the labels that are not named.
  std::vector<float> table(static_cast<size_t>(count + 2), 1.0f);
  for (const auto& [label, weight] : class_weight) {
    table[static_cast<size_t>(label + 1)] = static_cast<float>(weight);
  }
  const Tensor classes = clip(classes_of(y_true), -1, static_cast<double>(count));
  return gather(Tensor::from(table, {count + 2}), classes + 1.0);
}

}  // namespace tandem::keras
