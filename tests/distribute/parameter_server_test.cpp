// Parameter servers in one process: with staleness 0 the result is that of one device, without it
// every batch still counts once.
#include "tandem/distribute/parameter_server.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <sstream>
#include <thread>

#include "harness/fresh_devices.h"
#include "harness/small_regression.h"
#include "harness/temp_folder.h"
#include "harness/throws.h"
#include "tandem/cluster.h"
#include "tandem/tandem.h"

namespace tandem::distribute {
namespace {

using harness::throws;
using harness::weight_values;
using Doubles = std::vector<double>;

class ParameterServer : public harness::FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    config::set_logical_cpus(std::vector<config::LogicalCpu>(2, {.threads = 1}));
  }
};

struct Trained {
  std::vector<Doubles> weights;
  std::map<std::string, Doubles> history;
  int64_t iterations;
  std::string output;
};

Trained train_here(const std::function<keras::optimizers::Optimizer()>& optimizer) {
  random::set_seed(11);
  const keras::Sequential model = harness::regression_model();
  const keras::optimizers::Optimizer used = optimizer();
  std::ostringstream output;
  const keras::History history = harness::fit_regression(model, used, &output);
  return {.weights = weight_values(model),
          .history = history.history,
          .iterations = used.iterations().value().item<int64_t>(),
          .output = output.str()};
}

Trained train(const std::optional<Strategy>& strategy,
              const std::function<keras::optimizers::Optimizer()>& optimizer) {
  if (!strategy) return train_here(optimizer);
  const auto scope = strategy->scope();
  return train_here(optimizer);
}

void expect_near(const Trained& a, const Trained& b, double tolerance) {
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (size_t w = 0; w < a.weights.size(); ++w) {
    ASSERT_EQ(a.weights[w].size(), b.weights[w].size());
    for (size_t i = 0; i < a.weights[w].size(); ++i) {
      EXPECT_NEAR(a.weights[w][i], b.weights[w][i], tolerance) << "weight " << w << " at " << i;
    }
  }
  for (const auto& [name, values] : a.history) {
    if (name == "staleness") continue;  // Only servers know it.
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(values[i], b.history.at(name)[i], std::max(tolerance, 1e-12)) << name;
    }
  }
  EXPECT_EQ(a.iterations, b.iterations);
}

TEST_F(ParameterServer, InStepTheResultIsThatOfOneDevice) {
  const Trained one = train({}, harness::regression_optimizer);
  for (int workers = 1; workers <= 4; ++workers) {
    for (int servers = 1; servers <= 3; ++servers) {
      SCOPED_TRACE(fmt::format("{} workers, {} servers", workers, servers));
      const ParameterServerStrategy strategy(
          {.staleness = 0, .workers = workers, .servers = servers});
      EXPECT_EQ(strategy.num_replicas_in_sync(), workers);
      expect_near(train(strategy, harness::regression_optimizer), one, 1e-9);
    }
  }
}

TEST_F(ParameterServer, InStepTheBitsAreThoseOfMirroredShards) {
  for (const int workers : {2, 3, 4}) {
    const Trained mirrored = train(MirroredStrategy({"/CPU:0"}, {.reproducible_shards = workers}),
                                   harness::regression_optimizer);
    for (const int servers : {1, 3}) {
      SCOPED_TRACE(fmt::format("{} workers, {} servers", workers, servers));
      const ParameterServerStrategy strategy(
          {.staleness = 0, .workers = workers, .servers = servers, .reproducible = true});
      const Trained served = train(strategy, harness::regression_optimizer);
      EXPECT_EQ(served.weights, mirrored.weights);
    }
  }
}

TEST_F(ParameterServer, InStepEveryOptimizerIsTheSame) {
  const std::vector<std::function<keras::optimizers::Optimizer()>> optimizers = {
      [] { return keras::optimizers::SGD(0.05, {.momentum = 0.9, .nesterov = true}); },
      [] { return keras::optimizers::SGD(0.05, {.clipvalue = 0.1}); },
      [] { return keras::optimizers::SGD(0.05, {.clipnorm = 0.1}); },
      [] { return keras::optimizers::Adam(0.02, {.global_clipnorm = 0.3}); },
      [] { return keras::optimizers::RMSprop(0.01, {.momentum = 0.5, .centered = true}); },
      [] { return keras::optimizers::AdamW(0.01, {.amsgrad = true}); },
      [] { return keras::optimizers::Adagrad(0.1, {.gradient_accumulation_steps = 2}); }};
  const ParameterServerStrategy strategy({.staleness = 0, .workers = 3, .servers = 2});
  for (size_t i = 0; i < optimizers.size(); ++i) {
    SCOPED_TRACE(fmt::format("optimizer {}", i));
    expect_near(train(strategy, optimizers[i]), train({}, optimizers[i]), 1e-9);
  }
}

/// Labels of which some do not count, and examples that count more than others: the mean of a loss
/// is known when the whole batch is.
std::vector<Doubles> weights_after_masks(const keras::optimizers::Optimizer& optimizer) {
  random::set_seed(5);
  const keras::Sequential model(
      {keras::layers::Dense(9, {.activation = "tanh"}), keras::layers::Dense(4)});
  const keras::Loss classes = keras::losses::SparseCategoricalCrossentropy(
      {.from_logits = true,
       .ignore_class = 3,
       .reduction = keras::Reduction::mean_with_sample_weight});
  model.compile({.optimizer = optimizer, .loss = classes});
  std::vector<int32_t> labels;
  Doubles weights;
  for (int i = 0; i < 29; ++i) {
    labels.push_back(i < 8 ? 3 : i % 4);  // All of a worker's share, too.
    weights.push_back(0.5 + i % 3);
  }
  model.fit(harness::wave_features(29), Tensor::from(labels, {29}),
            {.batch_size = 8,
             .epochs = 2,
             .verbose = keras::Verbose::silent,
             .shuffle = false,
             .sample_weight = Tensor::from(weights, {29})});
  return weight_values(model);
}

TEST_F(ParameterServer, InStepMasksWeightsAndClippingHaveTheBitsOfMirroredShards) {
  using keras::optimizers::Adam;
  const std::vector<std::function<keras::optimizers::Optimizer()>> optimizers = {
      [] { return Adam(0.02); }, [] { return Adam(0.02, {.clipvalue = 0.01}); },
      [] { return Adam(0.02, {.clipnorm = 0.05}); },
      [] { return Adam(0.02, {.global_clipnorm = 0.05}); }};
  const auto under = [](const Strategy& strategy, const auto& optimizer) {
    const auto scope = strategy.scope();
    return weights_after_masks(optimizer());
  };
  for (int workers = 1; workers <= 4; ++workers) {
    const MirroredStrategy shards({"/CPU:0"}, {.reproducible_shards = workers});
    std::vector<std::vector<Doubles>> mirrored;
    for (const auto& optimizer : optimizers) mirrored.push_back(under(shards, optimizer));
    for (int servers = 1; servers <= 3; ++servers) {
      const ParameterServerStrategy strategy(
          {.staleness = 0, .workers = workers, .servers = servers, .reproducible = true});
      for (size_t i = 0; i < optimizers.size(); ++i) {
        SCOPED_TRACE(fmt::format("{} workers, {} servers, optimizer {}", workers, servers, i));
        EXPECT_EQ(under(strategy, optimizers[i]), mirrored[i]);
      }
    }
  }
}

/// Two layers that normalize by the statistics of the whole batch, and what they have seen.
std::vector<Doubles> normalized_weights(bool synchronized) {
  random::set_seed(5);
  const auto normalization = [&] {
    return keras::layers::BatchNormalization({.synchronized = synchronized});
  };
  const keras::Sequential model({keras::layers::Dense(5), normalization(),
                                 keras::layers::Dense(4, {.activation = "tanh"}), normalization(),
                                 keras::layers::Dense(1)});
  model.compile({.optimizer = keras::optimizers::Adam(0.02), .loss = "mse"});
  model.fit(harness::wave_features(31), harness::wave_truths(31),
            {.batch_size = 9, .epochs = 2, .verbose = keras::Verbose::silent});
  return weight_values(model);
}

TEST_F(ParameterServer, InStepBatchNormalizationHasTheBitsOfMirroredShards) {
  for (const int workers : {2, 3, 4}) {  // On two devices.
    for (const bool synchronized : {true, false}) {
      SCOPED_TRACE(fmt::format("{} workers, synchronized {}", workers, synchronized));
      const auto mirrored = [&] {
        const MirroredStrategy shards({"/CPU:0"}, {.reproducible_shards = workers});
        const auto scope = shards.scope();
        return normalized_weights(synchronized);
      }();
      const ParameterServerStrategy strategy(
          {.staleness = 0, .workers = workers, .servers = 2, .reproducible = true});
      const auto scope = strategy.scope();
      EXPECT_EQ(normalized_weights(synchronized), mirrored);
    }
  }
}

/// Whichever worker does it.
TEST_F(ParameterServer, InStepAShareHasTheNumberOfAReplica) {
  const ParameterServerStrategy strategy({.staleness = 0, .workers = 3});
  const auto scope = strategy.scope();
  const Variable weight(zeros({2}), {.name = "weight"});
  const keras::optimizers::SGD sgd(1.0);
  const auto step = function([&](const Tensor& batch) {
    const Tensor id = cast(get_replica_context()->replica_id_in_sync_group(), DType::float32);
    GradientTape tape;
    const Tensor loss = reduce_sum(weight.value()) * id + reduce_sum(batch) * 0.0;
    const Variables variables = {weight};
    sgd.apply_gradients(tape.gradient(loss, variables), variables);
    return id;
  });
  for (int i = 1; i <= 20; ++i) {
    const Tensors ids =
        strategy.local_results(strategy.run(step, strategy.split(Tensors{ones({3, 1})})));
    for (size_t share = 0; share < 3; ++share) {
      EXPECT_EQ(ids[share].item<float>(), static_cast<float>(share));
    }
    EXPECT_EQ(weight.value().to_vector<float>(), std::vector<float>(2, -3.0F * i));
  }
}

TEST_F(ParameterServer, AWorkerThatFailsWithinAStepKeepsNobodyWaiting) {
  const ParameterServerStrategy strategy(
      {.staleness = 0, .workers = 2, .before_step = [](int worker) {
         if (worker == 1) throw InvalidArgument("no more");
       }});
  const auto scope = strategy.scope();
  EXPECT_TRUE(throws<InvalidArgument>([] { normalized_weights(true); }, {"worker 1", "no more"}));
}

/// A table that some batches read by rows, and others as a whole.
TEST_F(ParameterServer, WhatIsReadOfATableIsDecidedForEachKindOfBatch) {
  const auto table_after = [](const Strategy* strategy, bool whole_first) {
    const Variable table(reshape(harness::wave_features(24, 4), {24, 4}), {.name = "table"});
    const keras::optimizers::SGD sgd(0.1);
    const auto step = function([&](const Tensor& ids) {
      GradientTape tape;
      const Tensor all = table.value();
      // It reads all of the table, too, for ids of two axes.
      Tensor loss = reduce_sum(square(gather(all, ids)));
      if (ids.rank() == 2) loss = loss + reduce_sum(square(all));
      const Variables variables = {table};
      sgd.apply_gradients(tape.gradient(loss, variables), variables);
      return loss;
    });
    const Tensor rows = Tensor::from(std::vector<int32_t>{3, 5, 3, 23}, {4});
    const Tensor whole = reshape(rows, {4, 1});
    for (int i = 0; i < 4; ++i) {
      const Tensor& ids = (i % 2 == 0) == whole_first ? whole : rows;
      if (strategy == nullptr) {
        step(ids);
      } else {
        strategy->run(step, strategy->split(Tensors{ids}));
      }
    }
    return table.value().to_vector<double>();
  };
  for (const bool whole_first : {false, true}) {
    SCOPED_TRACE(whole_first ? "the whole first" : "rows first");
    const ParameterServerStrategy strategy({.workers = 1, .servers = 2});
    const Doubles alone = table_after(nullptr, whole_first);
    const auto scope = strategy.scope();
    const Doubles served = table_after(&strategy, whole_first);
    for (size_t i = 0; i < alone.size(); ++i) ASSERT_NEAR(served[i], alone[i], 1e-12) << i;
  }
}

TEST_F(ParameterServer, GradientsOfRowsAreThoseOfOneDevice) {
  const auto weights = [] {
    random::set_seed(5);
    const keras::Sequential model(
        {keras::layers::Embedding(101, 7), keras::layers::Flatten(), keras::layers::Dense(1)});
    model.compile({.optimizer = keras::optimizers::Adam(0.01), .loss = "mse"});
    std::vector<int32_t> ids;
    for (int i = 0; i < 96; ++i) ids.push_back(i * i % 101);  // Some are there several times.
    model.fit(Tensor::from(ids, {32, 3}), cast(harness::wave_truths(32), DType::float32),
              {.batch_size = 9, .epochs = 3, .verbose = keras::Verbose::silent});
    return weight_values(model);
  };
  const auto alone = weights();
  for (const auto& [staleness, workers] : {std::pair{int64_t{0}, 3}, std::pair{unbounded, 1}}) {
    for (const int servers : {1, 3}) {
      SCOPED_TRACE(fmt::format("{} workers, {} servers", workers, servers));
      const ParameterServerStrategy strategy(
          {.staleness = staleness, .workers = workers, .servers = servers});
      const auto scope = strategy.scope();
      const auto served = weights();
      for (size_t w = 0; w < alone.size(); ++w) {
        for (size_t i = 0; i < alone[w].size(); ++i) ASSERT_NEAR(alone[w][i], served[w][i], 1e-5);
      }
    }
  }
}

/// A table of which each of two batches has rows of its own.
std::vector<Doubles> trained_table(bool in_turn) {
  random::set_seed(5);
  const keras::Sequential model(
      {keras::layers::Embedding(40, 5), keras::layers::Flatten(), keras::layers::Dense(1)});
  model.compile({.optimizer = keras::optimizers::Adam(0.01), .loss = "mse"});
  std::vector<int32_t> ids;
  for (int i = 0; i < 32; ++i) ids.push_back(in_turn && i >= 16 ? 20 + i % 16 : i % 16);
  model.fit(Tensor::from(ids, {16, 2}), cast(harness::wave_truths(16), DType::float32),
            {.batch_size = 8, .epochs = 3, .verbose = keras::Verbose::silent, .shuffle = false});
  return weight_values(model);
}

TEST_F(ParameterServer, WithSparseUpdatesRowsWithoutAGradientRest) {
  // Where all batches have the same rows, nothing rests.
  const auto same = trained_table(false);
  const auto dense = trained_table(true);
  for (const auto& [staleness, workers] : {std::pair{int64_t{0}, 2}, std::pair{unbounded, 1}}) {
    SCOPED_TRACE(fmt::format("staleness {}", staleness));
    const ParameterServerStrategy strategy(
        {.staleness = staleness, .workers = workers, .servers = 2, .sparse_update = true});
    const auto scope = strategy.scope();
    const auto served = trained_table(false);
    for (size_t w = 0; w < same.size(); ++w) {
      for (size_t i = 0; i < same[w].size(); ++i) ASSERT_NEAR(same[w][i], served[w][i], 1e-5);
    }
    // By turns, a row rests in every other step: it moves, but not on from its momentum.
    const auto lazy = trained_table(true);
    double difference = 0;
    for (size_t i = 0; i < 16 * 5; ++i) difference += std::abs(lazy[0][i] - dense[0][i]);
    EXPECT_GT(difference, 1e-3);
  }
}

TEST_F(ParameterServer, OneAsynchronousWorkerIsOneDevice) {
  const auto clipped = [] { return keras::optimizers::SGD(0.05, {.global_clipnorm = 0.1}); };
  const ParameterServerStrategy strategy({.workers = 1, .servers = 2});
  expect_near(train(strategy, clipped), train({}, clipped), 1e-9);
}

TEST_F(ParameterServer, WithoutStepsTheLossFallsAllTheSame) {
  for (const int64_t staleness : {int64_t{2}, unbounded}) {
    for (const bool damping : {false, true}) {
      const ParameterServerStrategy strategy(
          {.staleness = staleness, .damping = damping, .workers = 3, .servers = 2});
      EXPECT_EQ(strategy.num_replicas_in_sync(), 1);
      random::set_seed(3);
      const auto scope = strategy.scope();
      const keras::Sequential model({keras::layers::Dense(1)});
      model.compile({.optimizer = keras::optimizers::SGD(0.02), .loss = "mse"});
      const Tensor x = harness::wave_features(60);
      const Tensor y = reduce_sum(x, {.axes = std::vector<int>{1}, .keepdims = true});
      const keras::History history =
          model.fit(x, y, {.batch_size = 5, .epochs = 30, .verbose = keras::Verbose::silent});
      const Doubles& losses = history.history.at("loss");
      EXPECT_LT(losses.back(), 0.2 * losses.front());
      const double held = model.evaluate(x, y, {.verbose = keras::Verbose::silent}).at("loss");
      EXPECT_LT(held, losses.front());
    }
  }
}

TEST_F(ParameterServer, FitTellsHowStaleUpdatesWere) {
  const ParameterServerStrategy strategy({.workers = 2});
  const Trained trained = train(strategy, harness::regression_optimizer);
  EXPECT_NE(trained.output.find("staleness of 15 updates: mean "), std::string::npos)
      << trained.output;
  EXPECT_EQ(trained.iterations, 15);
}

/// A step that adds one to each element, and tells whether it saw elements that differ.
struct Counter {
  explicit Counter(int64_t elements)
      : counted(zeros({elements}, DType::float64), {.name = "counted"}), sgd(1.0) {}

  Tensor step(const Tensor& batch) const {
    GradientTape tape;
    const Tensor seen = counted.value();
    const Tensor loss = reduce_sum(seen) * -1.0 + reduce_sum(batch) * 0.0;
    const Variables variables = {counted};
    sgd.apply_gradients(tape.gradient(loss, variables), variables);
    return reduce_max(seen) - reduce_min(seen);
  }

  Variable counted;
  keras::optimizers::SGD sgd;
};

TEST_F(ParameterServer, EveryTicketCountsOnceAndNothingIsReadTorn) {
  constexpr int kSteps = 300;
  for (const int64_t staleness : {int64_t{0}, int64_t{1}, unbounded}) {
    SCOPED_TRACE(fmt::format("staleness {}", staleness));
    const ParameterServerStrategy strategy({.staleness = staleness, .workers = 4});
    const auto scope = strategy.scope();
    const Counter counter(5000);
    const auto step = function([&](const Tensor& batch) { return counter.step(batch); });
    ClusterCoordinator coordinator(strategy);
    std::vector<ClusterCoordinator::RemoteValue> torn;
    for (int i = 0; i < kSteps; ++i) {
      torn.push_back(
          coordinator.schedule(step, strategy.split(Tensors{harness::wave_features(4, 1)})));
    }
    coordinator.join();
    EXPECT_TRUE(coordinator.done());
    // Where workers share batches each share has the gradient.
    const double each = staleness == 0 ? 4 : 1;
    for (const double value : counter.counted.value().to_vector<double>()) {
      ASSERT_EQ(value, kSteps * each);
    }
    for (const auto& value : torn) EXPECT_EQ(value.fetch()[0].item<double>(), 0);
    EXPECT_EQ(counter.sgd.iterations().value().item<int64_t>(), kSteps);
  }
}

/// Each update adds its rate, and each worker reads before all others push.
TEST_F(ParameterServer, StaleUpdatesAreDampedOrDroppedAndAProfileNamesThem) {
  const harness::TempFolder folder;
  for (const bool damping : {true, false}) {
    const ParameterServerStrategy strategy(
        {.staleness = unbounded,
         .damping = damping,
         .drop_older_than = damping ? std::nullopt : std::optional<int64_t>(0),
         .workers = 3,
         .before_step = [](int) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }});
    const auto scope = strategy.scope();
    const Counter counter(10);
    const auto step = function([&](const Tensor& batch) { return counter.step(batch); });
    ClusterCoordinator coordinator(strategy);
    profile::start();
    for (int i = 0; i < 40; ++i) {
      coordinator.schedule(step, strategy.split(Tensors{harness::wave_features(4, 1)}));
    }
    coordinator.join();
    const std::string path = (folder / "trace.json").string();
    profile::stop(path);
    double expected = 0;
    int64_t most = 0;
    for (const auto& [staleness, updates] : strategy.staleness_histogram()) {
      const double rate = damping ? 1.0 / (1 + static_cast<double>(staleness)) : staleness == 0;
      expected += rate * static_cast<double>(updates);
      most = std::max(most, staleness);
    }
    EXPECT_GT(most, 0);
    EXPECT_NEAR(counter.counted.value().to_vector<double>()[0], expected, 1e-9);
    std::ostringstream trace;
    trace << std::ifstream(path).rdbuf();
    EXPECT_NE(trace.str().find(fmt::format("push, staleness {}", most)), std::string::npos);
  }
}

TEST_F(ParameterServer, ACustomLoopRunsStepByStep) {
  const ParameterServerStrategy strategy({.staleness = 0, .workers = 2, .servers = 2});
  const auto scope = strategy.scope();
  const Counter counter(200);
  const auto step = function([&](const Tensor& batch) { return counter.step(batch); });
  const auto batches = data::Dataset::from_tensor_slices(harness::wave_features(12, 1)).batch(4);
  for (const PerReplicas& batch : strategy.distribute_dataset(batches)) {
    const PerReplica torn = strategy.run(step, batch);
    EXPECT_EQ(strategy.reduce(ReduceOp::sum, torn).item<double>(), 0);
  }
  EXPECT_EQ(counter.counted.value().to_vector<double>(), Doubles(200, 6));
}

TEST_F(ParameterServer, WhatReadsVariablesHasAllStepsBeforeIt) {
  for (const int64_t staleness : {unbounded, int64_t{0}}) {
    SCOPED_TRACE(fmt::format("staleness {}", staleness));
    const ParameterServerStrategy strategy(
        {.staleness = staleness, .workers = 1, .servers = 2, .before_step = [](int) {
           std::this_thread::sleep_for(std::chrono::milliseconds(2));
         }});
    const auto scope = strategy.scope();
    const Variable counted(zeros({300}), {.name = "counted"});
    const keras::optimizers::SGD sgd(1.0);
    const auto train = function([&](const Tensor& batch) {
      GradientTape tape;
      const Tensor loss = reduce_sum(counted.value()) * -1.0 + reduce_sum(batch) * 0.0;
      const Variables variables = {counted};
      sgd.apply_gradients(tape.gradient(loss, variables), variables);
    });
    const auto read = function(
        [&](const Tensor& batch) { return reduce_min(counted.value()) + reduce_sum(batch) * 0.0; });
    ClusterCoordinator coordinator(strategy);
    const auto batch = strategy.split(Tensors{ones({2, 1})});
    for (int i = 0; i < 9; ++i) coordinator.schedule(train, batch);
    EXPECT_EQ(coordinator.schedule(read, batch).fetch()[0].item<float>(), 9);
    for (int i = 0; i < 9; ++i) coordinator.schedule(train, batch);
    EXPECT_EQ(strategy.local_results(strategy.run(read, batch))[0].item<float>(), 18);
  }
}

TEST_F(ParameterServer, NothingTrainsAfterItWasClosed) {
  const ParameterServerStrategy strategy({.workers = 2, .servers = 2});
  const auto scope = strategy.scope();
  const Counter counter(10);
  const auto step = function([&](const Tensor& batch) { return counter.step(batch); });
  ClusterCoordinator coordinator(strategy);
  const auto batch = strategy.split(Tensors{harness::wave_features(4, 1)});
  coordinator.schedule(step, batch);
  coordinator.join();
  strategy.close();
  strategy.close();
  EXPECT_TRUE(throws<FailedPrecondition>([&] { coordinator.schedule(step, batch); },
                                         {"it trains after close()"}));
  EXPECT_EQ(counter.counted.value().to_vector<double>(), Doubles(10, 1));
}

TEST_F(ParameterServer, AnErrorOfAWorkerIsThrownAndTrainingGoesOn) {
  const ParameterServerStrategy strategy({.workers = 2});
  const auto scope = strategy.scope();
  const Counter counter(10);
  const auto step = function([&](const Tensor& batch) {
    if (batch.shape().rank() > 2) throw InvalidArgument("too many axes");
    return counter.step(batch);
  });
  ClusterCoordinator coordinator(strategy);
  const auto schedule = [&](const Tensor& batch) {
    coordinator.schedule(step, strategy.split(Tensors{batch}));
  };
  schedule(harness::wave_features(4));
  coordinator.join();
  schedule(reshape(harness::wave_features(4), {4, 3, 2}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { coordinator.join(); }, {"too many axes"}));
  schedule(harness::wave_features(4));
  coordinator.join();
  EXPECT_EQ(counter.counted.value().to_vector<double>(), Doubles(10, 2));
}

TEST_F(ParameterServer, ACheckpointInTheMiddleOfAnEpochHasTheValuesOfThatMoment) {
  const harness::TempFolder folder;
  const ParameterServerStrategy strategy({.workers = 3, .servers = 2});
  const auto scope = strategy.scope();
  const keras::Sequential model(
      {keras::layers::Dense(1, {.use_bias = false, .kernel_initializer = "zeros"})});
  model.compile({.optimizer = keras::optimizers::SGD(1.0), .loss = "mae"});  // Adds 1 each time.
  const train::Checkpoint checkpoint({{"model", model}});
  int64_t batches = 0;
  const auto save = [&](keras::TrainingRun&, int64_t) {
    ++batches;
    if (batches % 9 == 0) checkpoint.write(folder / fmt::format("after-{}", batches));
  };
  model.fit(ones({120, 700}), ones({120, 1}) * 1e9,
            {.batch_size = 4,
             .verbose = keras::Verbose::silent,
             .callbacks = {keras::callbacks::LambdaCallback({.on_batch_end = save})}});
  EXPECT_EQ(batches, 30);
  for (const int64_t saved : {9, 18, 27}) {
    const Variable kernel = model.weights()[0];
    checkpoint.restore(folder / fmt::format("after-{}", saved)).assert_existing_objects_matched();
    EXPECT_EQ(kernel.value().to_vector<float>(),
              std::vector<float>(700, static_cast<float>(saved)));
  }
}

TEST_F(ParameterServer, OptionsThatCannotBeAreRefused) {
  EXPECT_TRUE(throws<InvalidArgument>([] { ParameterServerStrategy({.staleness = -2}); },
                                      {"staleness is -2, -1 or more is accepted"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { ParameterServerStrategy({.servers = 0}); },
                                      {"servers is 0, 1 or more is accepted"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { ClusterCoordinator coordinator{MirroredStrategy()}; },
                                      {"MirroredStrategy has no parameter servers"}));
}

TEST_F(ParameterServer, AClusterHasOneChiefAndSomeWorkers) {
  const auto strategy_of = [](std::vector<std::string> chiefs, std::vector<std::string> workers) {
    train::ClusterSpec::Addresses jobs{{"ps", {"a:4"}}};
    if (!chiefs.empty()) jobs["chief"] = std::move(chiefs);
    if (!workers.empty()) jobs["worker"] = std::move(workers);
    ParameterServerStrategy(
        {.cluster_resolver = std::make_shared<cluster_resolver::SimpleClusterResolver>(
             train::ClusterSpec(std::move(jobs)), "ps", 0)});
  };
  EXPECT_TRUE(
      throws<InvalidArgument>([&] { strategy_of({}, {"a:1"}); }, {"1 tasks ps and no chief"}));
  EXPECT_TRUE(
      throws<InvalidArgument>([&] { strategy_of({"a:1"}, {}); }, {"1 tasks ps and no worker"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        strategy_of({"a:1", "a:2"}, {"a:3"});
      },
      {"2 tasks chief, 1 is accepted"}));
}

TEST_F(ParameterServer, WhatNeedsOtherWorkersValuesIsRefused) {
  const ParameterServerStrategy strategy({.staleness = 0, .workers = 2});
  const auto by_norm = [] {
    return keras::optimizers::SGD(0.05, {.clipnorm = 0.1, .gradient_accumulation_steps = 2});
  };
  EXPECT_TRUE(throws<Unimplemented>([&] { train(strategy, by_norm); },
                                    {"gradients that accumulate; clipvalue is accepted"}));
}

TEST_F(ParameterServer, StatisticsOfLayersAreTheServersToo) {
  const ParameterServerStrategy strategy({.workers = 1, .servers = 2});
  const auto weights = [] {
    random::set_seed(5);
    const keras::Sequential model({keras::layers::BatchNormalization(), keras::layers::Dense(1)});
    model.compile({.optimizer = keras::optimizers::SGD(0.1), .loss = "mse"});
    model.fit(harness::wave_features(32), harness::wave_truths(32),
              {.batch_size = 8, .verbose = keras::Verbose::silent});
    return weight_values(model);
  };
  const auto alone = weights();
  const auto scope = strategy.scope();
  const auto served = weights();
  for (size_t w = 0; w < alone.size(); ++w) {
    for (size_t i = 0; i < alone[w].size(); ++i) EXPECT_NEAR(alone[w][i], served[w][i], 1e-12);
  }
}

}  // namespace
}  // namespace tandem::distribute
