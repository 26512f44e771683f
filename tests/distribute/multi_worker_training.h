/// What tests of MultiWorkerMirroredStrategy train: a small model with everything that processes
/// must agree on, in float64.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "device/logical_device.h"
#include "distribute/multi_worker.h"
#include "harness/socket_group.h"
#include "harness/temp_folder.h"

namespace tandem::distribute::multi_worker {

using GroupPtr = std::shared_ptr<harness::SocketGroup>;
using Doubles = std::vector<double>;

inline void use_cpus(int count) {
  devices::reset_devices();
  std::vector<config::LogicalCpu> cpus(static_cast<size_t>(count), {.threads = 1});
  config::set_logical_cpus(cpus);
}

inline Tensor vector_of(const Doubles& values) {
  return Tensor::from(values, {static_cast<int64_t>(values.size())});
}

inline Tensor features(int64_t rows, int64_t width = 6) {
  Doubles values;
  for (int64_t i = 0; i < rows * width; ++i) {
    values.push_back(std::sin(0.7 * static_cast<double>(i)) + 0.1 * static_cast<double>(i % 5));
  }
  return Tensor::from(values, {rows, width});
}

inline Tensor truths(int64_t rows) {
  Doubles values;
  for (int64_t i = 0; i < rows; ++i) values.push_back(std::cos(0.3 * static_cast<double>(i)));
  return Tensor::from(values, {rows, 1});
}

struct Trained {
  std::vector<Doubles> weights;
  std::map<std::string, Doubles> history;
  keras::Logs evaluated;
  Doubles predicted;
};

/// Shuffling, dropout, uneven batches, batch normalisation, metrics, validation, Adam.
inline Trained train(const std::optional<Strategy>& strategy, int64_t rows = 43, int64_t batch = 10,
                     bool normalise = true, int64_t width = 8) {
  random::set_seed(11);
  const auto build = [&] {
    std::vector<keras::Layer> layers{keras::layers::Dense(width, {.activation = "tanh"})};
    if (normalise) {
      layers.push_back(keras::layers::BatchNormalization({.synchronized = true}));
    }
    layers.push_back(keras::layers::Dropout(0.2));
    layers.push_back(keras::layers::Dense(1));
    keras::Sequential model(layers);
    model.compile({.optimizer = keras::optimizers::Adam(0.01), .loss = "mse", .metrics = {"mae"}});
    return model;
  };
  const auto run = [&] {
    const auto model = build();
    const keras::History history =
        model.fit(features(rows), truths(rows),
                  {.batch_size = batch,
                   .epochs = 3,
                   .verbose = keras::Verbose::silent,
                   .validation_data = keras::ValidationData(features(11), truths(11))});
    Trained trained;
    for (const Tensor& weight : model.get_weights()) {
      trained.weights.push_back(weight.to_vector<double>());
    }
    trained.history = history.history;
    trained.evaluated = model.evaluate(features(17), truths(17),
                                       {.batch_size = 5, .verbose = keras::Verbose::silent});
    trained.predicted = model.predict(features(7), {.batch_size = 3}).to_vector<double>();
    return trained;
  };
  if (!strategy) return run();
  const auto scope = strategy->scope();
  return run();
}

inline void expect_near(const Trained& a, const Trained& b, double tolerance = 1e-9) {
  const auto near = [&](const Doubles& x, const Doubles& y, const std::string& what) {
    ASSERT_EQ(x.size(), y.size()) << what;
    for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], tolerance) << what << " " << i;
  };
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (size_t i = 0; i < a.weights.size(); ++i) near(a.weights[i], b.weights[i], "weight");
  for (const auto& [name, values] : a.history) near(values, b.history.at(name), name);
  for (const auto& [name, value] : a.evaluated) EXPECT_NEAR(value, b.evaluated.at(name), tolerance);
  near(a.predicted, b.predicted, "prediction");
}

inline MultiWorkerMirroredStrategy strategy_of(const GroupPtr& group,
                                               const MultiWorkerOptions& options = {}) {
  random::set_seed(1);
  return multi_worker_strategy(group, options);
}

/// The chief's folder, which all see.
inline std::filesystem::path folder_of_chief(const GroupPtr& group,
                                             const harness::TempFolder& own) {
  return group->gather_texts("folder", own.path().string())[0];
}

}  // namespace tandem::distribute::multi_worker
