/// Whole trainings with `fit`: per step, with accuracy, shuffled rows and all that a user gets.
#include "bench.h"
#include "device/logical_device.h"
#include "harness/classifier.h"
#include "harness/convnet.h"
#include "support/seed_model.h"
#include "tandem/keras/layers.h"

namespace tandem::bench {
namespace {

namespace layers = keras::layers;

constexpr int64_t kBatch = 128;

Tensors values_of(const Variables& variables) {
  Tensors values;
  for (const Variable& variable : variables) values.push_back(variable.value());
  return values;
}

/// Epochs over all rows, shuffled.
void measure(const std::string& name, const keras::Model& model, const Tensor& x, const Tensor& y) {
  constexpr int kEpochs = 10;
  report(name + ".loss", first_loss(model, x, y), "loss");
  const double epoch = best_seconds(
      [&] { model.fit(x, y, {.batch_size = kBatch, .verbose = keras::Verbose::silent}); }, kEpochs,
      0.01);
  const int64_t steps = (x.shape()[0] + kBatch - 1) / kBatch;
  report(name, epoch / static_cast<double>(steps) * 1e6, "us");
}

/// 60,000 rows, the last batch has 96.
void seed_model(const std::string& name, const distribute::Strategy& strategy) {
  constexpr int64_t kRows = 60'000;
  const auto scope = strategy.scope();
  measure(name, seed_classifier(), harness::features<float>(kRows), harness::labels<float>(kRows));
}

}  // namespace

keras::Sequential seed_classifier() {
  const keras::Sequential model(
      {layers::Dense(10, {.activation = "relu", .input_shape = {784}}), layers::Dense(10)});
  model.set_weights(values_of(harness::Classifier<float>().variables));
  model.compile({.optimizer = keras::optimizers::Adam(0.01),
                 .loss = keras::losses::CategoricalCrossentropy({.from_logits = true}),
                 .metrics = {"accuracy"}});
  return model;
}

double first_loss(const keras::Model& model, const Tensor& x, const Tensor& y) {
  constexpr int64_t kLossRows = 20 * kBatch;
  const keras::History first =
      model.fit(x.rows(0, kLossRows), y.rows(0, kLossRows),
                {.batch_size = kBatch, .verbose = keras::Verbose::silent, .shuffle = false});
  return first.history.at("loss")[0];
}

void seed_fit() {
  devices::reset_devices();
  seed_model("seed_fit", distribute::get_strategy());
}

void mirrored_fit() {
  devices::reset_devices();
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  seed_model("mirrored_fit", distribute::MirroredStrategy());
}

/// The network of `convnet`, 50 steps an epoch.
void convnet_fit() {
  constexpr int64_t kRows = 50 * kBatch;
  devices::reset_devices();
  const keras::Sequential model(
      {layers::Conv2D(32, 3, {.activation = "relu", .input_shape = {28, 28, 1}}),
       layers::MaxPooling2D(), layers::Conv2D(64, 3, {.activation = "relu"}),
       layers::MaxPooling2D(), layers::Flatten(), layers::Dense(10)});
  model.set_weights(values_of(harness::Convnet<float>().variables));
  model.compile({.optimizer = keras::optimizers::Adam(0.001),
                 .loss = keras::losses::SparseCategoricalCrossentropy({.from_logits = true}),
                 .metrics = {"accuracy"}});
  measure("convnet_fit", model, harness::images<float>(kRows), harness::classes(kRows));
}

}  // namespace tandem::bench
