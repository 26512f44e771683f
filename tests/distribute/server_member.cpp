/// A task of a cluster with parameter servers, as a program of its own: tests start it as chief,
/// workers and servers, and kill some of them. See parameter_server_processes_test.cpp.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <thread>

#include "cluster/service.h"
#include "tandem/distribute/parameter_server.h"
#include "tandem/tandem.h"

namespace {

using namespace tandem;
using Doubles = std::vector<double>;

struct MemberSettings {
  std::string mode = "fit";
  int64_t staleness = 0;
  int64_t steps = 60;  // Of an epoch, when counting.
  int epochs = 2;
  int sleep_ms = 0;
  int patience = 60;
  bool reproducible = false;
};

Tensor features(int64_t rows, int64_t width = 6) {
  Doubles values;
  for (int64_t i = 0; i < rows * width; ++i) {
    values.push_back(std::sin(0.7 * static_cast<double>(i)) + 0.1 * static_cast<double>(i % 5));
  }
  return Tensor::from(values, {rows, width});
}

Tensor truths(int64_t rows) {
  Doubles values;
  for (int64_t i = 0; i < rows; ++i) values.push_back(std::cos(0.3 * static_cast<double>(i)));
  return Tensor::from(values, {rows, 1});
}

void say(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

void say_weights(const keras::Model& model) {
  for (const Tensor& weight : model.get_weights()) {
    std::string line = "weight";
    for (const double value : cast(weight, DType::float64).to_vector<double>()) {
      line += fmt::format(" {}", value);
    }
    say(line);
  }
}

/// Shuffling, dropout, uneven batches, regularizers, metrics, validation.
void fit() {
  const keras::Sequential model(
      {keras::layers::Dense(
           19, {.activation = "tanh", .kernel_regularizer = keras::regularizers::l2(0.01)}),
       keras::layers::Dropout(0.2), keras::layers::Dense(1)});
  model.compile({.optimizer = keras::optimizers::Adam(
                     keras::optimizers::schedules::ExponentialDecay(0.02, 5, 0.9)),
                 .loss = "mse",
                 .metrics = {"mae"}});
  const keras::History history =
      model.fit(features(43), truths(43),
                {.batch_size = 10,
                 .epochs = 3,
                 .verbose = keras::Verbose::line,
                 .validation_data = keras::ValidationData(features(11), truths(11))});
  for (const auto& [name, values] : history.history) {
    say(fmt::format("history {} {}", name, fmt::join(values, " ")));
  }
  const keras::Logs logs = model.evaluate(features(17), truths(17),
                                          {.batch_size = 5, .verbose = keras::Verbose::silent});
  say(fmt::format("evaluated {}", logs.at("loss")));
  say_weights(model);
}

/// The gradient of each weight is -1, whatever the batch, so that with a rate of 1 each weight is
/// the number of updates.
void count(const MemberSettings& settings) {
  const keras::Sequential model(
      {keras::layers::Dense(1, {.use_bias = false, .kernel_initializer = "zeros"})});
  model.compile({.optimizer = keras::optimizers::SGD(1.0), .loss = "mae"});
  const int64_t rows = 4 * settings.steps;
  const keras::History history =
      model.fit(ones({rows, 3000}), ones({rows, 1}) * 1e9,
                {.batch_size = 4, .epochs = settings.epochs, .verbose = keras::Verbose::silent});
  double least = 1e30;
  double most = -1e30;
  for (const double value : cast(model.get_weights()[0], DType::float64).to_vector<double>()) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  say(fmt::format("counted {} {}", least, most));
}

/// A loop of its own: steps that add one to each element and tell whether they saw elements that
/// differ, first scheduled, then one by one.
void loop(const distribute::Strategy& strategy, const MemberSettings& settings) {
  const Variable counted(zeros({5000}, DType::float64), {.name = "counted"});
  const keras::optimizers::SGD sgd(1.0);
  const auto step = function([&](const Tensor& batch) {
    GradientTape tape;
    const Tensor seen = counted.value();
    const Tensor loss = reduce_sum(seen) * -1.0 + reduce_sum(batch) * 0.0;
    const Variables variables = {counted};
    sgd.apply_gradients(tape.gradient(loss, variables), variables);
    return reduce_max(seen) - reduce_min(seen);
  });
  distribute::ClusterCoordinator coordinator(strategy);
  const auto batch = strategy.split(Tensors{features(4, 1)});
  std::vector<distribute::ClusterCoordinator::RemoteValue> torn;
  for (int64_t i = 0; i < settings.steps; ++i) torn.push_back(coordinator.schedule(step, batch));
  coordinator.join();
  double differences = 0;
  for (const auto& value : torn) differences += value.fetch()[0].item<double>();
  for (int i = 0; i < 3; ++i) strategy.run(step, batch);
  const Tensor value = counted.value();
  say(fmt::format("looped {} {} {}", reduce_min(value).item<double>(),
                  reduce_max(value).item<double>(), differences));
}

/// A large table, of which each batch touches a few rows.
void embed() {
  const keras::Sequential model(
      {keras::layers::Embedding(20000, 16), keras::layers::Flatten(), keras::layers::Dense(1)});
  model.compile({.optimizer = keras::optimizers::Adam(0.01), .loss = "mse"});
  std::vector<int32_t> ids;
  for (int i = 0; i < 240; ++i) ids.push_back(i * 7919 % 20000);
  const keras::History history =
      model.fit(Tensor::from(ids, {60, 4}), cast(truths(60), DType::float32),
                {.batch_size = 10, .epochs = 4, .verbose = keras::Verbose::silent});
  say(fmt::format("history loss {}", fmt::join(history.history.at("loss"), " ")));
  const Tensor table = model.get_weights()[0];
  say(fmt::format("table {} {}", reduce_sum(table).item<float>(),
                  reduce_sum(square(table)).item<float>()));
}

void run(const MemberSettings& settings) {
  random::set_seed(11);
  distribute::ParameterServerOptions options{.staleness = settings.staleness,
                                             .reproducible = settings.reproducible};
  options.patience = std::chrono::seconds(settings.patience);
  uint64_t first_bytes = 0;
  uint64_t last_bytes = 0;
  options.before_step = [&](int) {
    say("step");
    last_bytes = cluster::service_bytes();
    if (first_bytes == 0) first_bytes = last_bytes;
    if (settings.sleep_ms > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(settings.sleep_ms));
    }
  };
  const distribute::ParameterServerStrategy strategy(options);
  const auto scope = strategy.scope();
  say(strategy.is_chief() ? "chief" : "follower");
  if (settings.mode == "fit") fit();
  if (settings.mode == "count") count(settings);
  if (settings.mode == "loop") loop(strategy, settings);
  if (settings.mode == "embed") embed();
  say(fmt::format("moved {}", last_bytes - first_bytes));
  say("done");
}

}  // namespace

int main(int count, char** words) {
  MemberSettings settings;
  const std::map<std::string, std::function<void(const char*)>> flags = {
      {"--mode", [&](const char* word) { settings.mode = word; }},
      {"--staleness", [&](const char* word) { settings.staleness = std::atol(word); }},
      {"--steps", [&](const char* word) { settings.steps = std::atol(word); }},
      {"--epochs", [&](const char* word) { settings.epochs = std::atoi(word); }},
      {"--sleep-ms", [&](const char* word) { settings.sleep_ms = std::atoi(word); }},
      {"--patience", [&](const char* word) { settings.patience = std::atoi(word); }},
      {"--reproducible", [&](const char* word) { settings.reproducible = std::atoi(word) != 0; }}};
  try {
    for (int i = 1; i + 1 < count; i += 2) flags.at(words[i])(words[i + 1]);
    run(settings);
  } catch (const Error& error) {
    say(fmt::format("{}: {}", error.kind(), error.what()));
    return 1;
  } catch (const std::exception& error) {
    say(error.what());
    return 1;
  }
  return 0;
}
