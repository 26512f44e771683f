/// A small regression that has what strategies may get wrong: dropout, uneven batches, a
/// regularizer, metrics, validation.
#pragma once

#include <cmath>
#include <ostream>
#include <vector>

#include "tandem/tandem.h"

namespace tandem::harness {

inline Tensor wave_features(int64_t rows, int64_t width = 6) {
  std::vector<double> values;
  for (int64_t i = 0; i < rows * width; ++i) {
    values.push_back(std::sin(0.7 * static_cast<double>(i)) + 0.1 * static_cast<double>(i % 5));
  }
  return Tensor::from(values, {rows, width});
}

inline Tensor wave_truths(int64_t rows) {
  std::vector<double> values;
  for (int64_t i = 0; i < rows; ++i) values.push_back(std::cos(0.3 * static_cast<double>(i)));
  return Tensor::from(values, {rows, 1});
}

inline keras::Sequential regression_model() {
  return keras::Sequential(
      {keras::layers::Dense(
           19, {.activation = "tanh", .kernel_regularizer = keras::regularizers::l2(0.01)}),
       keras::layers::Dropout(0.2), keras::layers::Dense(1)});
}

/// Its rate falls.
inline keras::optimizers::Optimizer regression_optimizer() {
  return keras::optimizers::Adam(keras::optimizers::schedules::ExponentialDecay(0.02, 5, 0.9));
}

/// In batches of 10, of 43 rows, three times.
inline keras::History fit_regression(const keras::Model& model,
                                     const keras::optimizers::Optimizer& optimizer,
                                     std::ostream* output = nullptr) {
  model.compile({.optimizer = optimizer, .loss = "mse", .metrics = {"mae"}});
  return model.fit(wave_features(43), wave_truths(43),
                   {.batch_size = 10,
                    .epochs = 3,
                    .verbose = keras::Verbose::line,
                    .validation_data = keras::ValidationData(wave_features(11), wave_truths(11)),
                    .output = output});
}

/// The values of all weights, one weight after another.
inline std::vector<std::vector<double>> weight_values(const keras::Model& model) {
  std::vector<std::vector<double>> all;
  for (const Tensor& weight : model.get_weights()) {
    all.push_back(cast(weight, DType::float64).to_vector<double>());
  }
  return all;
}

}  // namespace tandem::harness
