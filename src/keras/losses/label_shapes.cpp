#include "keras/losses/label_shapes.h"

#include <fmt/format.h>

#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem::keras {
namespace {

int64_t last_size(const Shape& shape) { return shape.extent(shape.rank() - 1); }

bool ends_in_one(const Shape& shape) { return shape.rank() > 1 && last_size(shape) == 1; }

[[noreturn]] void throw_unfit(std::string_view name, const Tensor& y_true, const Tensor& y_pred,
                              std::string_view accepted) {
  throw InvalidArgument(fmt::format("{}: y_true {} and y_pred {} do not fit; accepted are {}", name,
                                    y_true.shape().str(), y_pred.shape().str(), accepted));
}

Tensor as_column(const Tensor& x) { return x.rank() == 1 ? expand_dims(x, -1) : x; }

}  // namespace

Tensor as_dtype(const Tensor& x, DType dtype) { return x.dtype() == dtype ? x : cast(x, dtype); }

Tensor floating_predictions(std::string_view name, const Tensor& y_pred) {
  const DType dtype = y_pred.dtype();
  if (dtype == DType::float32 || dtype == DType::float64) return y_pred;
  if (is_floating(dtype)) return cast(y_pred, DType::float32);
  throw InvalidArgument(
      fmt::format("{}: y_pred is {}; predictions are floating", name, name_of(dtype)));
}

TruthAndPrediction alike(std::string_view name, const Tensor& y_true, const Tensor& y_pred) {
  TruthAndPrediction pair{y_true, y_pred};
  if (y_true.rank() == y_pred.rank() + 1 && ends_in_one(y_true.shape()) && y_pred.rank() > 1) {
    pair.y_true = squeeze(y_true, {-1});
  } else if (y_pred.rank() == y_true.rank() + 1 && ends_in_one(y_pred.shape()) &&
             y_true.rank() > 1) {
    pair.y_pred = squeeze(y_pred, {-1});
  }
  pair = {as_column(pair.y_true), as_column(pair.y_pred)};
  if (pair.y_true.shape() != pair.y_pred.shape() || pair.y_pred.rank() < 2) {
    throw_unfit(name, y_true, y_pred, "one shape [batch,..], and [batch] beside [batch,1]");
  }
  pair.y_pred = floating_predictions(name, pair.y_pred);
  pair.y_true = as_dtype(pair.y_true, pair.y_pred.dtype());
  return pair;
}

TruthAndPrediction distributions(std::string_view name, const Tensor& y_true,
                                 const Tensor& y_pred) {
  if (y_pred.rank() < 2 || y_true.shape() != y_pred.shape()) {
    throw_unfit(name, y_true, y_pred, "one shape [batch,..,classes]");
  }
  const Tensor predictions = floating_predictions(name, y_pred);
  return {as_dtype(y_true, predictions.dtype()), predictions};
}

TruthAndPrediction classes_and_scores(std::string_view name, const Tensor& y_true,
                                      const Tensor& y_pred) {
  const bool column = y_true.rank() == y_pred.rank() && ends_in_one(y_true.shape());
  const Tensor classes = column ? squeeze(y_true, {-1}) : y_true;
  if (y_pred.rank() < 2 || classes.shape() != y_pred.shape().without(y_pred.rank() - 1)) {
    throw_unfit(name, y_true, y_pred, "[batch,..] or [batch,..,1] beside [batch,..,classes]");
  }
  return {classes, floating_predictions(name, y_pred)};
}

Tensor weight_for(std::string_view name, std::string_view what, const Tensor& weight,
                  const Tensor& values) {
  const Shape& target = values.shape();
  Shape shape = weight.shape();
  if (shape.rank() == target.rank() + 1 && last_size(shape) == 1) {
    shape = shape.without(shape.rank() - 1);
  }
  bool fits = shape.rank() <= target.rank();
  for (int axis = 0; fits && axis < shape.rank(); ++axis) {
    fits = shape.extent(axis) == 1 || shape.extent(axis) == target.extent(axis);
  }
  if (!fits) {
    throw InvalidArgument(fmt::format("{}: {} {} does not fit values {}; it has their leading axes",
                                      name, what, weight.shape().str(), target.str()));
  }
  while (shape.rank() > 0 && shape.rank() < target.rank()) shape = shape.inserted(shape.rank(), 1);
  const Tensor fitted = shape == weight.shape() ? weight : reshape(weight, shape);
  return as_dtype(fitted, values.dtype());
}

}  // namespace tandem::keras
