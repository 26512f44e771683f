/// Truths, predictions and weights of the shapes that Keras accepts, brought to one shape. Shared
/// by losses and metrics; `name` is that of the loss or metric, for messages.
#pragma once

#include <string_view>

#include "tandem/tensor.h"

namespace tandem::keras {

struct TruthAndPrediction {
  Tensor y_true;
  Tensor y_pred;
};

/// `x`, cast unless it has the dtype.
Tensor as_dtype(const Tensor& x, DType dtype);

/// Predictions in a dtype that computes. Throws InvalidArgument unless they are floating.
Tensor floating_predictions(std::string_view name, const Tensor& y_pred);

/// Both with one shape [batch, .., values] and the predictions' dtype. Throws InvalidArgument.
TruthAndPrediction alike(std::string_view name, const Tensor& y_true, const Tensor& y_pred);

/// Both [.., classes], of one shape, the truth with the predictions' dtype. Throws InvalidArgument.
TruthAndPrediction distributions(std::string_view name, const Tensor& y_true, const Tensor& y_pred);

/// The truth as classes [..], without a last axis of size 1, for predictions [.., classes]. Throws
/// InvalidArgument.
TruthAndPrediction classes_and_scores(std::string_view name, const Tensor& y_true,
                                      const Tensor& y_pred);

/// `weight` so that it broadcasts to `values`, whose leading axes it has, with their dtype. `what`
/// it is, "sample_weight". Throws InvalidArgument.
Tensor weight_for(std::string_view name, std::string_view what, const Tensor& weight,
                  const Tensor& values);

}  // namespace tandem::keras
