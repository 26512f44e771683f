/// A task of a cluster with parameter servers, as a program of its own: tests start it as chief,
/// workers and servers, and kill some of them. See parameter_server_processes_test.cpp.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <thread>

#include "cluster/service.h"
#include "harness/resident_files.h"
#include "harness/small_regression.h"
#include "tandem/distribute/parameter_server.h"
#include "tandem/tandem.h"

namespace {

using namespace tandem;
using Doubles = std::vector<double>;

struct MemberSettings {
  std::string mode = "fit";
  int64_t staleness = 0;
  int64_t steps = 60;  // An epoch has so many, when counting.
  int epochs = 2;
  int sleep_ms = 0;
  int patience = 60;
  bool reproducible = false;
  std::string folder;    // Where a checkpoint is saved, when counting,
  int64_t save_at = 0;   // after so many batches were handed out.
  int64_t rows = 20000;  // A table has so many.
  int64_t ids = 4;       // How many rows of it an example has.
  int64_t limit_mb = 0;  // Tasks that are no servers may use so much memory.
  int uneven = 0;        // How much longer the first worker sleeps; it is told when steps begin.
  std::string gather;    // A folder in which tasks say that they have come:
  size_t tasks = 0;      // the chief waits for so many.
  std::string poison;    // A file that the chief waits for, to count by thousands.
  int shards = 0;        // A MirroredStrategy has so many in the place of servers; 0: servers.
};

void say(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

void fit() {
  const keras::Sequential model = harness::regression_model();
  const keras::History history = harness::fit_regression(model, harness::regression_optimizer());
  for (const auto& [name, values] : history.history) {
    say(fmt::format("history {} {}", name, fmt::join(values, " ")));
  }
  const keras::Logs logs = model.evaluate(harness::wave_features(17), harness::wave_truths(17),
                                          {.batch_size = 5, .verbose = keras::Verbose::silent});
  say(fmt::format("evaluated {}", logs.at("loss")));
  for (const Doubles& weight : harness::weight_values(model)) {
    say(fmt::format("weight {}", fmt::join(weight, " ")));
  }
}

std::string extremes(const Tensor& values) {
  const Tensor numbers = cast(values, DType::float64);
  return fmt::format("{} {}", reduce_min(numbers).item<double>(),
                     reduce_max(numbers).item<double>());
}

constexpr int64_t kWidth = 3000;  // What is counted is so wide.

/// Saves a checkpoint in the middle of an epoch, and tells what is in it.
keras::AnyCallback saving(const keras::Model& model, const keras::optimizers::Optimizer& optimizer,
                          const MemberSettings& settings) {
  auto batches = std::make_shared<int64_t>(0);
  const train::Checkpoint checkpoint({{"model", model}, {"optimizer", optimizer}});
  return keras::callbacks::LambdaCallback({.on_batch_end = [=](keras::TrainingRun&, int64_t) {
    if (++*batches != settings.save_at) return;
    const auto path = checkpoint.save(settings.folder + "/ckpt");
    const train::CheckpointReader reader = train::load_checkpoint(path);
    for (const std::string& key : reader.keys()) {
      if (reader.shape(key).count() != kWidth) continue;
      say(fmt::format("saved {} {}", *batches, extremes(reader.tensor(key))));
    }
  }});
}

/// After some batches it waits for a file, if there is a name, and counts by thousands from then
/// on.
keras::AnyCallback poisoning(const std::string& file) {
  auto batches = std::make_shared<int>(0);
  return keras::callbacks::LambdaCallback({.on_batch_end = [=](keras::TrainingRun& run, int64_t) {
    if (++*batches != 10) return;
    say(file.empty() ? "counts" : "waits");
    if (file.empty()) return;
    while (!std::filesystem::exists(file))
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    run.set_learning_rate(1000);
  }});
}

/// The gradient of each weight is -1, whatever the batch, so that with a rate of 1 each weight is
/// the number of updates.
void count(const MemberSettings& settings) {
  const keras::Sequential model(
      {keras::layers::Dense(1, {.use_bias = false, .kernel_initializer = "zeros"})});
  const keras::optimizers::SGD sgd(1.0);
  model.compile({.optimizer = sgd, .loss = "mae"});
  const int64_t rows = 4 * settings.steps;
  keras::FitOptions options{
      .batch_size = 4, .epochs = settings.epochs, .verbose = keras::Verbose::silent};
  if (!settings.folder.empty()) options.callbacks.push_back(saving(model, sgd, settings));
  options.callbacks.push_back(poisoning(settings.poison));
  model.fit(ones({rows, kWidth}), ones({rows, 1}) * 1e9, options);
  say(fmt::format("counted {}", extremes(model.get_weights()[0])));
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
  const auto batch = strategy.split(Tensors{harness::wave_features(4, 1)});
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

/// Steps that are not waited for: what reads the variables next has all of them, whether it is a
/// function of its own, one that is scheduled, or evaluate.
void read_unjoined(const distribute::Strategy& strategy) {
  const keras::Sequential model(
      {keras::layers::Dense(1, {.use_bias = false, .kernel_initializer = "zeros"})});
  const keras::optimizers::SGD sgd(1.0);
  model.compile({.optimizer = sgd, .loss = "mae"});
  const Tensor x = ones({2, 3});
  model(x);
  const Variable kernel = model.weights()[0];
  const auto train = function([&](const Tensor& batch) {
    GradientTape tape;
    const Tensor loss = reduce_sum(kernel.value()) * -1.0 + reduce_sum(batch) * 0.0;
    const Variables variables = {kernel};
    sgd.apply_gradients(tape.gradient(loss, variables), variables);
    return loss;
  });
  const auto read = function(
      [&](const Tensor& batch) { return reduce_sum(kernel.value()) + reduce_sum(batch) * 0.0; });
  distribute::ClusterCoordinator coordinator(strategy);
  const auto batch = strategy.split(Tensors{x});
  const auto train_some = [&] {
    for (int i = 0; i < 7; ++i) coordinator.schedule(train, batch);
  };
  train_some();
  const auto ran = strategy.run(read, batch);
  train_some();
  const auto scheduled = coordinator.schedule(read, batch);
  train_some();
  const keras::Logs logs =
      model.evaluate(x, zeros({2, 1}), {.batch_size = 2, .verbose = keras::Verbose::silent});
  say(fmt::format("read {} {} {}", strategy.local_results(ran)[0].item<float>(),
                  scheduled.fetch()[0].item<float>(), logs.at("loss")));
}

/// The chief fails, in a loop of its own or while it evaluates.
void fail(const distribute::Strategy& strategy, const MemberSettings& settings) {
  const Variable counted(zeros({50}), {.name = "counted"});
  const keras::optimizers::SGD sgd(1.0);
  const auto step = function([&](const Tensor& batch) {
    GradientTape tape;
    const Tensor loss = reduce_sum(counted.value()) + reduce_sum(batch) * 0.0;
    const Variables variables = {counted};
    sgd.apply_gradients(tape.gradient(loss, variables), variables);
  });
  distribute::ClusterCoordinator coordinator(strategy);
  const auto batch = strategy.split(Tensors{ones({2, 1})});
  for (int i = 0; i < 10; ++i) coordinator.schedule(step, batch);
  coordinator.join();
  if (settings.mode != "fail") {
    const bool is_chief = strategy.is_chief();
    const bool is_alone = settings.mode == "fail_alone";  // The others evaluate.
    if (is_chief && is_alone) throw InvalidArgument("a failure before what all do");
    const keras::Sequential model({keras::layers::Dense(1)});
    model.compile({.optimizer = keras::optimizers::SGD(1.0), .loss = "mae"});
    const auto check = [is_chief](const Tensor& x, const Tensor& y) {
      if (is_chief) throw InvalidArgument("no more features");
      return Tensors{x, y};
    };
    const auto features = data::Dataset::from_tensor_slices(ones({4, 3}), ones({4, 1}));
    model.evaluate(features.map(check).batch(2));
  }
  if (strategy.is_chief()) throw InvalidArgument("a failure of the chief's own");
  for (int i = 0; i < 10; ++i) coordinator.schedule(step, batch);
  coordinator.join();
}

/// Layers that normalize by the statistics of what all workers have, and gradients that are clipped
/// by the norm of all of them.
void normalize(const MemberSettings& settings) {
  const keras::Sequential model({keras::layers::Dense(5),
                                 keras::layers::BatchNormalization({.synchronized = true}),
                                 keras::layers::Dropout(0.2), keras::layers::Dense(1)});
  model.compile(
      {.optimizer = keras::optimizers::Adam(0.05, {.global_clipnorm = 0.1}), .loss = "mse"});
  model.fit(harness::wave_features(31), harness::wave_truths(31),
            {.batch_size = 9, .epochs = settings.epochs, .verbose = keras::Verbose::silent});
  for (const Doubles& weight : harness::weight_values(model)) {
    say(fmt::format("weight {}", fmt::join(weight, " ")));
  }
}

void say_resident() { say(fmt::format("resident {}", harness::resident_file_bytes())); }

/// A large table, of which each batch touches a few rows.
void embed(const MemberSettings& settings) {
  const auto rows = static_cast<int>(settings.rows);
  const keras::Sequential model(
      {keras::layers::Embedding(rows, 16), keras::layers::Flatten(), keras::layers::Dense(1)});
  model.compile({.optimizer = keras::optimizers::Adam(0.01), .loss = "mse"});
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < 60 * settings.ids; ++i) {
    ids.push_back(static_cast<int32_t>(i * 7919 % settings.rows));
  }
  const Shape shape{60, settings.ids};
  const keras::History history =
      model.fit(Tensor::from(ids, shape), cast(harness::wave_truths(60), DType::float32),
                {.batch_size = 10,
                 .epochs = settings.epochs,
                 .verbose = keras::Verbose::silent,
                 .callbacks = {keras::callbacks::LambdaCallback(
                     {.on_batch_end = [](keras::TrainingRun&, int64_t) { say_resident(); }})}});
  say(fmt::format("history loss {}", fmt::join(history.history.at("loss"), " ")));
  const keras::Logs logs =
      model.evaluate(Tensor::from(ids, shape), cast(harness::wave_truths(60), DType::float32),
                     {.verbose = keras::Verbose::silent});
  say(fmt::format("evaluated {}", logs.at("loss")));
  // A part of it, since the whole may be more than the device's memory.
  const Tensor some = gather(model.weights()[0].value(), Tensor::from(ids, {60 * settings.ids}));
  say(fmt::format("table {} {}", reduce_sum(some).item<float>(),
                  reduce_sum(square(some)).item<float>()));
}

/// As a machine with little memory, unless this task is a server.
void limit_memory(int64_t megabytes) {
  const char* const task = std::getenv("TF_CONFIG");
  const bool serves = task != nullptr && std::strstr(task, R"("type": "ps")") != nullptr;
  if (megabytes == 0 || serves) return;
  config::set_logical_cpus({{.threads = 1, .memory_limit = static_cast<size_t>(megabytes) << 20}});
}

/// What servers in step are to equal bit for bit.
void run_mirrored(const MemberSettings& settings) {
  const distribute::MirroredStrategy strategy({"/CPU:0"}, {.reproducible_shards = settings.shards});
  const auto scope = strategy.scope();
  settings.mode == "normalize" ? normalize(settings) : fit();
}

/// Nobody comes too late, however busy the machine is.
void wait_for_all(const distribute::Strategy& strategy, const MemberSettings& settings) {
  if (settings.gather.empty()) return;
  std::ofstream(fmt::format("{}/{}", settings.gather, getpid())) << "here";
  const auto come = [&] {
    return std::ranges::distance(std::filesystem::directory_iterator(settings.gather),
                                 std::filesystem::directory_iterator());
  };
  while (strategy.is_chief() && come() < static_cast<std::ptrdiff_t>(settings.tasks)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void run(const MemberSettings& settings) {
  random::set_seed(11);
  if (settings.shards > 0) return run_mirrored(settings);
  limit_memory(settings.limit_mb);
  distribute::ParameterServerOptions options{.staleness = settings.staleness,
                                             .reproducible = settings.reproducible};
  options.patience = std::chrono::seconds(settings.patience);
  if (settings.limit_mb > 0) options.bytes_in_files = size_t{1} << 20;
  uint64_t first_bytes = 0;
  uint64_t last_bytes = 0;
  uint64_t first_messages = 0;
  uint64_t last_messages = 0;
  options.before_step = [&](int worker) {
    say("step");
    if (settings.mode == "embed") say_resident();
    last_bytes = cluster::service_bytes();
    last_messages = cluster::service_messages();
    if (first_bytes == 0) {
      first_bytes = last_bytes;
      first_messages = last_messages;
    }
    if (settings.uneven > 0) {
      say(fmt::format("began {}", std::chrono::steady_clock::now().time_since_epoch().count()));
    }
    const int times = worker == 0 ? std::max(settings.uneven, 1) : 1;
    if (settings.sleep_ms > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(times * settings.sleep_ms));
    }
  };
  const distribute::ParameterServerStrategy strategy(options);
  const auto scope = strategy.scope();
  say(strategy.is_chief() ? "chief" : "follower");
  wait_for_all(strategy, settings);
  if (settings.mode == "fit") fit();
  if (settings.mode == "count") count(settings);
  if (settings.mode == "loop") loop(strategy, settings);
  if (settings.mode == "embed") embed(settings);
  if (settings.mode == "normalize") normalize(settings);
  if (settings.mode == "unjoined") read_unjoined(strategy);
  if (settings.mode.starts_with("fail")) fail(strategy, settings);
  say(fmt::format("moved {}", last_bytes - first_bytes));
  say(fmt::format("asked {}", last_messages - first_messages));
  const auto histogram = strategy.staleness_histogram();
  if (!histogram.empty()) say(fmt::format("most stale {}", histogram.rbegin()->first));
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
      {"--folder", [&](const char* word) { settings.folder = word; }},
      {"--uneven", [&](const char* word) { settings.uneven = std::atoi(word); }},
      {"--ids", [&](const char* word) { settings.ids = std::atol(word); }},
      {"--rows", [&](const char* word) { settings.rows = std::atol(word); }},
      {"--limit-mb", [&](const char* word) { settings.limit_mb = std::atol(word); }},
      {"--poison", [&](const char* word) { settings.poison = word; }},
      {"--save-at", [&](const char* word) { settings.save_at = std::atol(word); }},
      {"--gather", [&](const char* word) { settings.gather = word; }},
      {"--tasks", [&](const char* word) { settings.tasks = static_cast<size_t>(std::atol(word)); }},
      {"--shards", [&](const char* word) { settings.shards = std::atoi(word); }},
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
