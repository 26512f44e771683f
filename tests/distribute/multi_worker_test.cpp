// MultiWorkerMirroredStrategy over real processes and a plain transport: what it computes is what
// one device computes, for any number of processes and replicas.
#include "distribute/multi_worker.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "collective/collective.h"
#include "device/logical_device.h"
#include "distribute/merged_profile.h"
#include "distribute/strategy_body.h"
#include "harness/opencl.h"
#include "harness/socket_group.h"
#include "harness/temp_folder.h"
#include "harness/throws.h"
#include "op/instruction_hook.h"

namespace tandem::distribute {
namespace {

using harness::in_processes;
using harness::SocketGroup;
using harness::throws;
using GroupPtr = std::shared_ptr<SocketGroup>;
using Doubles = std::vector<double>;

void use_cpus(int count) {
  devices::reset_devices();
  std::vector<config::LogicalCpu> cpus(static_cast<size_t>(count), {.threads = 1});
  config::set_logical_cpus(cpus);
}

Tensor vector_of(const Doubles& values) {
  return Tensor::from(values, {static_cast<int64_t>(values.size())});
}

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

struct Trained {
  std::vector<Doubles> weights;
  std::map<std::string, Doubles> history;
  keras::Logs evaluated;
  Doubles predicted;
};

/// Shuffling, dropout, uneven batches, batch normalisation, metrics, validation, Adam.
Trained train(const std::optional<Strategy>& strategy, int64_t rows = 43, int64_t batch = 10,
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

void expect_near(const Trained& a, const Trained& b, double tolerance = 1e-9) {
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

MultiWorkerMirroredStrategy strategy_of(const GroupPtr& group,
                                        const MultiWorkerOptions& options = {}) {
  random::set_seed(1);
  return multi_worker_strategy(group, options);
}

TEST(MultiWorker, ReplicasAreNumberedAndSummedOverAllProcesses) {
  in_processes(3, [](const GroupPtr& group) {
    use_cpus(group->rank() == 1 ? 2 : 1);
    const auto strategy = strategy_of(group);
    EXPECT_EQ(strategy.num_replicas_in_sync(), 4);
    EXPECT_EQ(strategy.is_chief(), group->rank() == 0);
    const auto f = function([](const Tensor& x) {
      const auto context = get_replica_context();
      const Tensor id = cast(context->replica_id_in_sync_group(), DType::float64);
      return Tensors{id, context->all_reduce(ReduceOp::sum, id + 1.0),
                     context->all_reduce(ReduceOp::mean, id),
                     context->all_gather(reshape(id, {1}), 0), reduce_sum(x)};
    });
    const Tensor batch = features(10, 1);
    const PerReplicas results = strategy.run(f, strategy.split(batch));
    EXPECT_NE(f.explain().find("of 3 processes with 4 replicas: 1 exchange a run"),
              std::string::npos)
        << f.explain();
    const int first = std::array{0, 1, 3}[static_cast<size_t>(group->rank())];
    for (int r = 0; r < (group->rank() == 1 ? 2 : 1); ++r) {
      EXPECT_EQ(results[0].value(r).item<double>(), first + r);
      EXPECT_EQ(results[1].value(r).item<double>(), 10);
      EXPECT_EQ(results[2].value(r).item<double>(), 1.5);
      EXPECT_EQ(results[3].value(r).to_vector<double>(), (Doubles{0, 1, 2, 3}));
    }
    EXPECT_NEAR(strategy.reduce(ReduceOp::sum, results[4]).item<double>(),
                reduce_sum(batch).item<double>(), 1e-12);
    const Tensor ids = strategy.gather(PerReplica(strategy.local_results(results[3])), 0);
    EXPECT_EQ(ids.shape()[0], 16);
  });
}

class Equivalence : public testing::TestWithParam<std::pair<int, int>> {};

TEST_P(Equivalence, FitEvaluateAndPredictAreThoseOfOneDevice) {
  const auto [processes, replicas] = GetParam();
  in_processes(processes, [replicas = replicas](const GroupPtr& group) {
    use_cpus(1);
    const Trained alone = train({});
    use_cpus(replicas);
    expect_near(alone, train(strategy_of(group)));
  });
}

INSTANTIATE_TEST_SUITE_P(MultiWorker, Equivalence,
                         testing::Values(std::pair{1, 2}, std::pair{2, 1}, std::pair{2, 2},
                                         std::pair{3, 1}, std::pair{3, 2}, std::pair{4, 1},
                                         std::pair{4, 2}));

class Reproducible : public testing::TestWithParam<std::pair<int, int>> {};

TEST_P(Reproducible, EightShardsGiveTheSameBits) {
  const auto [processes, replicas] = GetParam();
  in_processes(processes, [replicas = replicas](const GroupPtr& group) {
    use_cpus(1);
    const Trained alone = train(MirroredStrategy({}, {.reproducible_shards = 8}));
    use_cpus(replicas);
    const Trained together = train(strategy_of(group, {.reproducible_shards = 8}));
    EXPECT_EQ(alone.weights, together.weights);
    EXPECT_EQ(alone.history, together.history);
  });
}

INSTANTIATE_TEST_SUITE_P(MultiWorker, Reproducible,
                         testing::Values(std::pair{2, 2}, std::pair{4, 2}, std::pair{2, 1}));

TEST(MultiWorker, AStepOfFitHasOneExchange) {
  in_processes(2, [](const GroupPtr& group) {
    use_cpus(1);
    const auto strategy = strategy_of(group);
    const auto scope = strategy.scope();
    keras::Sequential model({keras::layers::Dense(8, {.activation = "relu"}),
                             keras::layers::Dropout(0.5), keras::layers::Dense(1)});
    model.compile({.optimizer = "adam", .loss = "mse", .metrics = {"mae"}});
    int before = 0;
    std::vector<int> per_step;
    const keras::callbacks::LambdaCallback count(
        {.on_batch_begin = [&](keras::TrainingRun&, int64_t) { before = group->exchanges(); },
         .on_batch_end = [&](keras::TrainingRun&,
                             int64_t) { per_step.push_back(group->exchanges() - before); }});
    model.fit(
        features(40), truths(40),
        {.batch_size = 10, .epochs = 2, .verbose = keras::Verbose::silent, .callbacks = {count}});
    // The first gives the weights out.
    EXPECT_EQ(per_step, (std::vector<int>{2, 1, 1, 1, 1, 1, 1, 1}));
  });
}

TEST(MultiWorker, BatchNormalisationAddsNoMoreThanTwoExchanges) {
  in_processes(2, [](const GroupPtr& group) {
    use_cpus(1);
    const auto strategy = strategy_of(group);
    const auto scope = strategy.scope();
    std::vector<keras::Layer> layers;
    for (int i = 0; i < 4; ++i) {
      layers.push_back(keras::layers::Dense(8));
      layers.push_back(keras::layers::BatchNormalization());
    }
    layers.push_back(keras::layers::Dense(1));
    keras::Sequential model(layers);
    model.compile({.optimizer = "sgd", .loss = "mse"});
    model.train_on_batch({features(8)}, {truths(8)});
    const int before = group->exchanges();
    model.train_on_batch({features(8)}, {truths(8)});
    EXPECT_LE(group->exchanges() - before, 3);
  });
}

TEST(MultiWorker, AStepOfInceptionHasThreeExchangesAtMost) {
  in_processes(2, [](const GroupPtr& group) {
    use_cpus(1);
    const auto strategy = strategy_of(group, {.communication = {.bucket_bytes = int64_t{1} << 30}});
    const auto scope = strategy.scope();
    const keras::Model model =
        keras::applications::InceptionV3({.input_shape = {75, 75, 3}, .classes = 5});
    model.compile({.optimizer = "sgd", .loss = "mse"});
    const Tensor x = random_uniform({2, 75, 75, 3}, -1, 1);
    const Tensor y = zeros({2, 5});
    model.train_on_batch({x}, {y});
    const int before = group->exchanges();
    model.train_on_batch({x}, {y});
    EXPECT_LE(group->exchanges() - before, 3);
  });
}

TEST(MultiWorker, WeightsAreThoseOfTheChief) {
  in_processes(2, [](const GroupPtr& group) {
    use_cpus(1);
    const auto strategy = strategy_of(group);
    const auto scope = strategy.scope();
    const Variable w(vector_of(Doubles{1.0 + group->rank(), 2}), {.name = "w"});
    const auto f = function([&] { return w.value() * 2.0; });
    EXPECT_EQ(strategy.run(f).value(0).to_vector<double>(), (Doubles{2, 4}));
    EXPECT_EQ(w.value().to_vector<double>(), (Doubles{1, 2}));
    strategy.verify({w});
    w.assign(vector_of(Doubles{1.0 + group->rank(), 2}));
    EXPECT_TRUE(throws<DataLoss>([&] { strategy.verify({w}); }, {"rank 1", "'w'", "rank 0"}));
  });
}

TEST(MultiWorker, DifferentProgramsAreNamedBeforeTheyRun) {
  in_processes(2, [](const GroupPtr& group) {
    use_cpus(1);
    const auto strategy = strategy_of(group);
    const auto scope = strategy.scope();
    const Variable w(zeros({2 + group->rank()}, DType::float64), {.name = "w"});
    const auto f = function(
        [&] { return get_replica_context()->all_reduce(ReduceOp::sum, reduce_sum(w.value())); });
    try {
      strategy.run(f);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(
          text.find("rank 1 (worker 1, localhost) has 'variable 'w' float64[3]' where rank 0"),
          std::string::npos)
          << text;
    }
  });
}

TEST(MultiWorker, AnErrorOnOneRankEndsTheOthersWithItsText) {
  in_processes(3, [](const GroupPtr& group) {
    use_cpus(1);
    const auto strategy = strategy_of(group);
    const auto f = function([](const Tensor& x) {
      return get_replica_context()->all_reduce(ReduceOp::sum, reduce_sum(x));
    });
    strategy.run(f, strategy.split(features(6)));
    if (group->rank() == 2) {
      op::set_instruction_hook([](int, const std::string&) { throw DataLoss("a bad disk"); });
    }
    try {
      strategy.run(f, strategy.split(features(6)));
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("a bad disk"), std::string::npos) << error.what();
      if (group->rank() != 2) {
        EXPECT_NE(std::string(error.what()).find("rank 2"), std::string::npos) << error.what();
      }
    }
    op::set_instruction_hook({});
  });
}

TEST(MultiWorker, AChiefOnlyCallbackStopsAllAfterTheSameStep) {
  in_processes(2, [](const GroupPtr& group) {
    use_cpus(1);
    const auto strategy = strategy_of(group);
    const auto scope = strategy.scope();
    keras::Sequential model({keras::layers::Dense(1)});
    const keras::optimizers::SGD sgd(0.01);
    model.compile({.optimizer = sgd, .loss = "mse", .metrics = {"mae"}});
    int64_t steps = 0;
    const keras::callbacks::LambdaCallback stop(
        {.on_batch_end = [&](keras::TrainingRun& run, int64_t step) {
          ++steps;
          if (!run.is_chief()) return;
          run.logs();
          if (step == 2) run.stop();
        }});
    std::ostringstream shown;
    model.fit(features(80), truths(80),
              {.batch_size = 8, .epochs = 4, .callbacks = {stop}, .output = &shown});
    EXPECT_EQ(steps, 4);
    EXPECT_EQ(shown.str().empty(), group->rank() != 0);
    if (group->rank() == 0) {
      EXPECT_NE(shown.str().find("arrival"), std::string::npos) << shown.str();
    }
    EXPECT_EQ(sgd.iterations().value().item<int64_t>(), 4);
  });
}

TEST(MultiWorker, DifferentLearningRatesAreAnErrorThatNamesBoth) {
  in_processes(2, [](const GroupPtr& group) {
    use_cpus(1);
    const auto strategy = strategy_of(group);
    const auto scope = strategy.scope();
    keras::Sequential model({keras::layers::Dense(1)});
    model.compile({.optimizer = keras::optimizers::SGD(0.5), .loss = "mse"});
    const keras::callbacks::LambdaCallback change(
        {.on_batch_end = [](keras::TrainingRun& run, int64_t) {
          if (run.is_chief()) run.set_learning_rate(0.25);
        }});
    EXPECT_TRUE(throws<InvalidArgument>(
        [&] {
          model.fit(features(80), truths(80),
                    {.batch_size = 8, .verbose = keras::Verbose::silent, .callbacks = {change}});
        },
        {"0.5 on rank 1", "0.25 on rank 0"}));
  });
}

TEST(MultiWorker, ProcessesShareTheChiefsRandomNumbers) {
  in_processes(2, [](const GroupPtr& group) {
    use_cpus(1);
    const auto strategy = multi_worker_strategy(group);
    const auto scope = strategy.scope();
    // What one process draws besides moves nothing.
    const auto draw = function([] { return random_uniform({2}, 0, 1, {.dtype = DType::float64}); });
    const Doubles first = strategy.run(draw).value(0).to_vector<double>();
    if (group->rank() == 0) random_uniform({3});
    const Doubles second = strategy.run(draw).value(0).to_vector<double>();
    const auto all = group->gather_texts(
        "drawn", fmt::format("{} {} {} {}", first[0], first[1], second[0], second[1]));
    EXPECT_EQ(all[0], all[1]);
  });
}

TEST(MultiWorker, ASecondFitDrawsTheNumbersOfOneDevice) {
  const auto weights_after_two = [] {
    random::set_seed(11);
    keras::Sequential model(
        {keras::layers::Dense(8), keras::layers::Dropout(0.5), keras::layers::Dense(1)});
    model.compile({.optimizer = keras::optimizers::Adam(0.01), .loss = "mse"});
    for (int i = 0; i < 2; ++i) {
      model.fit(features(20), truths(20), {.batch_size = 8, .verbose = keras::Verbose::silent});
    }
    std::vector<Doubles> weights;
    for (const Tensor& weight : model.get_weights()) weights.push_back(weight.to_vector<double>());
    return weights;
  };
  in_processes(2, [&](const GroupPtr& group) {
    use_cpus(1);
    const std::vector<Doubles> alone = weights_after_two();
    const auto strategy = strategy_of(group);
    const auto scope = strategy.scope();
    const std::vector<Doubles> together = weights_after_two();
    for (size_t w = 0; w < alone.size(); ++w) {
      for (size_t i = 0; i < alone[w].size(); ++i) {
        EXPECT_NEAR(alone[w][i], together[w][i], 1e-9) << w;
      }
    }
  });
}

TEST(MultiWorker, DrawingBeforeTheStrategyNeedsASeed) {
  in_processes(2, [](const GroupPtr& group) {
    use_cpus(1);
    random_uniform({3});
    EXPECT_TRUE(throws<FailedPrecondition>([&] { multi_worker_strategy(group); },
                                           {"make the strategy first", "set_seed"}));
  });
}

Doubles all_rows_of(const Strategy& strategy, const DistributedDataset& dataset,
                    std::vector<int64_t>& global_rows) {
  const auto rows = function([](const Tensor& x) {
    return get_replica_context()->all_reduce(ReduceOp::sum,
                                             reduce_sum(ones_like(reshape(x, {-1}))));
  });
  Doubles seen;
  for (const PerReplicas& step : dataset) {
    const double count = strategy.run(rows, step).value(0).item<double>();
    global_rows.push_back(static_cast<int64_t>(count));
    for (double value : strategy.gather(step[0], 0).to_vector<double>()) seen.push_back(value);
  }
  return seen;
}

TEST(MultiWorker, DataAreDealtInTheOrderOfOneDevice) {
  in_processes(3, [](const GroupPtr& group) {
    use_cpus(2);
    const auto strategy = strategy_of(group);
    int calls = 0;
    const auto numbers = data::Dataset::range(23).map([&](const Tensor& x) {
      ++calls;
      return cast(x, DType::float64);
    });
    const auto table = data::Dataset::from_tensor_slices(reshape(features(23, 1), {23}));
    for (const auto& source :
         {numbers, table, numbers.filter([](const Tensor&) { return true; })}) {
      calls = 0;
      const auto batches = source.shuffle(23, {.seed = 5}).batch(7);
      Doubles wanted;
      for (const data::Element& batch : batches) {
        for (double value : batch[0].to_vector<double>()) wanted.push_back(value);
      }
      calls = 0;
      std::vector<int64_t> rows;
      EXPECT_EQ(all_rows_of(strategy, strategy.distribute_dataset(batches), rows), wanted);
      EXPECT_EQ(rows, (std::vector<int64_t>{7, 7, 7, 2}));
    }
    // Of elements that can be counted only the own ones are made.
    calls = 0;
    std::vector<int64_t> rows;
    all_rows_of(strategy, strategy.distribute_dataset(numbers.batch(6)), rows);
    EXPECT_LE(calls, 23 / 3 + 4);
  });
}

TEST(MultiWorker, DataOfEachProcessEndUnevenly) {
  in_processes(3, [](const GroupPtr& group) {
    use_cpus(2);
    const auto strategy = strategy_of(group);
    const auto own = [&](const InputContext& context) {
      EXPECT_EQ(context.num_input_pipelines, 3);
      EXPECT_EQ(context.input_pipeline_id, group->rank());
      EXPECT_EQ(context.num_replicas_in_sync, 6);
      return data::Dataset::range(20 * context.input_pipeline_id,
                                  20 * context.input_pipeline_id + 3 + 4 * group->rank())
          .map([](const Tensor& x) { return cast(x, DType::float64); })
          .batch(2);
    };
    std::vector<int64_t> rows;
    Doubles seen = all_rows_of(strategy, strategy.distribute_datasets_from_function(own), rows);
    std::ranges::sort(seen);
    EXPECT_EQ(seen, (Doubles{0,  1,  2,  20, 21, 22, 23, 24, 25, 26, 40,
                             41, 42, 43, 44, 45, 46, 47, 48, 49, 50}));
    EXPECT_EQ(rows, (std::vector<int64_t>{11, 7, 3}));
    rows.clear();
    all_rows_of(strategy,
                strategy.distribute_dataset(own({3, group->rank(), 6}),
                                            {.auto_shard_policy = AutoShardPolicy::off}),
                rows);
    EXPECT_EQ(rows.front(), 6);
    EXPECT_TRUE(throws<InvalidArgument>(
        [&] {
          strategy.distribute_dataset(own({3, group->rank(), 6}),
                                      {.auto_shard_policy = AutoShardPolicy::file});
        },
        {"not made of files by from_files"}));
  });
}

TEST(MultiWorker, FilesAreReadByOneProcessEach) {
  in_processes(2, [](const GroupPtr& group) {
    use_cpus(1);
    const auto strategy = strategy_of(group);
    std::vector<std::string> read;
    // "3" has the numbers 30, 31, 32.
    const auto numbers = [&](const std::string& path) {
      read.push_back(path);
      const int64_t count = std::stoll(path);
      return [count, at = int64_t{0}]() mutable -> std::optional<Tensor> {
        if (at == count) return std::nullopt;
        return Tensor(static_cast<double>(10 * count + at++));
      };
    };
    const auto batches = data::Dataset::from_files({"2", "5", "1"}, numbers).batch(4);
    const InputOptions by_file{.auto_shard_policy = AutoShardPolicy::file};
    std::vector<int64_t> rows;
    Doubles seen = all_rows_of(strategy, strategy.distribute_dataset(batches, by_file), rows);
    EXPECT_EQ(read, group->rank() == 0 ? (std::vector<std::string>{"2", "1"})
                                       : (std::vector<std::string>{"5"}));
    std::ranges::sort(seen);
    EXPECT_EQ(seen, (Doubles{10, 20, 21, 50, 51, 52, 53, 54}));
    EXPECT_EQ(rows, (std::vector<int64_t>{4, 3, 1}));
    EXPECT_TRUE(throws<InvalidArgument>(
        [&] {
          strategy.distribute_dataset(data::Dataset::from_files({"2"}, numbers).batch(4), by_file);
        },
        {"from_files('2')", "has 1 files for 2 processes"}));
  });
}

TEST(MultiWorker, BucketsUpdatedInPartsGiveTheSameResult) {
  for (const auto& [processes, replicas] : {std::pair{2, 1}, {2, 2}, {3, 1}}) {
    in_processes(processes, [replicas = replicas](const GroupPtr& group) {
      use_cpus(1);
      const Trained alone = train({}, 20, 10, false, 50);
      use_cpus(replicas);
      const auto strategy = strategy_of(group, {.communication = {.bucket_bytes = 256}});
      expect_near(alone, train(strategy, 20, 10, false, 50));
      const auto& names = group->names();
      EXPECT_NE(std::ranges::find(names, "updated variables"), names.end());
    });
  }
}

TEST(MultiWorker, SlotsOfWhichEachProcessKeepsAPartAreSavedWhole) {
  in_processes(3, [](const GroupPtr& group) {
    use_cpus(1);
    const harness::TempFolder folder;
    const auto strategy = strategy_of(group, {.communication = {.bucket_bytes = 256}});
    const auto scope = strategy.scope();
    keras::Sequential model({keras::layers::Dense(50), keras::layers::Dense(1)});
    const keras::optimizers::Adam adam(0.01);
    model.compile({.optimizer = adam, .loss = "mse"});
    const auto steps = [&](int count) {
      for (int i = 0; i < count; ++i) model.train_on_batch({features(9)}, {truths(9)});
      return model.get_weights()[0].to_vector<double>();
    };
    steps(3);
    const train::Checkpoint checkpoint({{"model", model}, {"optimizer", adam}});
    const auto path = checkpoint.save(folder / "c");
    const Doubles wanted = steps(3);
    checkpoint.restore(path);
    EXPECT_EQ(steps(3), wanted);
    // With all slots, this process alone goes on in the same way.
    checkpoint.restore(path);
    for (const Variable& slot : adam.variables()) {
      if (slot.shape().rank() != 2) continue;
      double sum = 0;
      for (double value : slot.value().to_vector<double>()) sum += std::abs(value);
      EXPECT_EQ(group->gather_texts("slot", std::to_string(sum))[0], std::to_string(sum));
      EXPECT_GT(sum, 0);
    }
  });
}

/// The chief's folder, which all see.
std::filesystem::path folder_of_chief(const GroupPtr& group, const harness::TempFolder& own) {
  return group->gather_texts("folder", own.path().string())[0];
}

/// Each process writes a file. Without the strategy each goes on in the same way.
TEST(MultiWorker, AllProcessesWriteACheckpointTogether) {
  struct Training {
    keras::Sequential model{{keras::layers::Dense(50), keras::layers::Dense(1)}};
    keras::optimizers::Adam adam{0.01};
    train::Checkpoint checkpoint{{{"model", model}, {"optimizer", adam}}};

    Training() { model.compile({.optimizer = adam, .loss = "mse"}); }
    Doubles steps(int count) const {
      for (int i = 0; i < count; ++i) model.train_on_batch({features(9)}, {truths(9)});
      return model.get_weights()[0].to_vector<double>();
    }
  };
  in_processes(3, [&](const GroupPtr& group) {
    use_cpus(1);
    const harness::TempFolder own;
    const std::filesystem::path folder = folder_of_chief(group, own);
    Doubles wanted;
    {
      const auto strategy = strategy_of(group, {.communication = {.bucket_bytes = 256}});
      const auto scope = strategy.scope();
      const Training training;
      training.steps(3);
      const auto path = training.checkpoint.save(folder / "c");
      wanted = training.steps(2);
      training.checkpoint.restore(path);
      EXPECT_EQ(training.steps(2), wanted);
    }
    const auto file = folder / fmt::format("c-1.data-{:05}-of-00003", group->rank());
    ASSERT_TRUE(std::filesystem::exists(file)) << file;
    EXPECT_GT(std::filesystem::file_size(file), 1000u) << file;
    const Training alone;
    alone.steps(1);
    alone.checkpoint.restore(folder / "c-1").assert_consumed();
    const Doubles found = alone.steps(2);
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-9);
    group->gather_texts("done with the folder", "");
  });
}

/// Each process keeps a part of every large variable, and all write a checkpoint together, which
/// one alone can restore.
TEST(MultiWorker, VariablesInPartsGiveTheResultOfOneDevice) {
  const auto built = [] {
    random::set_seed(11);
    keras::Sequential model({keras::layers::Dense(40, {.activation = "tanh"}),
                             keras::layers::Dense(30, {.activation = "tanh"}),
                             keras::layers::Dense(1)});
    model.compile(
        {.optimizer = keras::optimizers::Adam(0.01, {.global_clipnorm = 0.5}), .loss = "mse"});
    return model;
  };
  const auto train_on = [](const keras::Sequential& model) {
    model.fit(features(20), truths(20),
              {.batch_size = 8, .epochs = 2, .verbose = keras::Verbose::silent});
    return model.predict(features(7)).to_vector<double>();
  };
  const auto expect_near_to = [](const Doubles& found, const Doubles& wanted) {
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-9);
  };
  in_processes(3, [&](const GroupPtr& group) {
    use_cpus(1);
    const harness::TempFolder own;
    const std::filesystem::path folder = folder_of_chief(group, own);
    const Doubles wanted = train_on(built());
    {
      const auto strategy = strategy_of(group, {.shard = Shard::variables});
      const auto scope = strategy.scope();
      const keras::Sequential model = built();
      const train::Checkpoint checkpoint({{"model", model}});
      expect_near_to(train_on(model), wanted);
      EXPECT_TRUE(throws<FailedPrecondition>([&] { model.get_weights(); },
                                             {"other processes keep parts", "strategy.run"}));
      checkpoint.write(folder / "c");
      train_on(model);
      checkpoint.restore(folder / "c");
      expect_near_to(model.predict(features(7)).to_vector<double>(), wanted);
    }
    const keras::Sequential alone = built();
    alone.predict(features(7));
    train::Checkpoint({{"model", alone}}).restore(folder / "c").assert_consumed();
    expect_near_to(alone.predict(features(7)).to_vector<double>(), wanted);
    group->gather_texts("done with the folder", "");
  });
}

/// The bytes of a variable's memory that are really there.
size_t resident_bytes(const Variable& variable) {
  const StoreRange& range = variable.body()->range;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto data = reinterpret_cast<uintptr_t>(range.data(*range.block->devices()[0]));
  const uintptr_t begin = (data + page - 1) / page * page;
  const uintptr_t end = (data + static_cast<size_t>(range.count) * sizeof(double)) / page * page;
  std::vector<unsigned char> is_there((end - begin) / page);
  if (mincore(reinterpret_cast<void*>(begin), end - begin, is_there.data()) != 0) return 0;
  return page * static_cast<size_t>(std::ranges::count_if(is_there, [](auto c) { return c & 1; }));
}

TEST(MultiWorker, SlotsTakeMemoryOnceOverAllProcesses) {
  in_processes(2, [](const GroupPtr& group) {
    use_cpus(1);
    const harness::TempFolder folder;
    const auto strategy = strategy_of(group, {.communication = {.bucket_bytes = 256}});
    const auto scope = strategy.scope();
    keras::Sequential model({keras::layers::Dense(400), keras::layers::Dense(1)});
    const keras::optimizers::Adam adam(0.01);
    model.compile({.optimizer = adam, .loss = "mse"});
    const Tensor x = features(4, 600);
    const auto expect_halves = [&](const char* when) {
      int seen = 0;
      for (const Variable& slot : adam.variables()) {
        const auto bytes = static_cast<size_t>(slot.shape().count()) * sizeof(double);
        if (bytes < 1'000'000) continue;
        ++seen;
        EXPECT_LT(resident_bytes(slot), bytes * 11 / 20) << when << " " << slot.name();
        EXPECT_GT(resident_bytes(slot), bytes * 9 / 20) << when << " " << slot.name();
      }
      EXPECT_EQ(seen, 2) << when;
    };
    model.train_on_batch({x}, {truths(4)});
    expect_halves("trained");
    const train::Checkpoint checkpoint({{"model", model}, {"optimizer", adam}});
    const auto path = checkpoint.save(folder / "c");
    expect_halves("saved");
    model.train_on_batch({x}, {truths(4)});
    const Doubles wanted = model.get_weights()[0].to_vector<double>();
    checkpoint.restore(path);
    expect_halves("restored");
    model.train_on_batch({x}, {truths(4)});
    EXPECT_EQ(model.get_weights()[0].to_vector<double>(), wanted);
  });
}

TEST(MultiWorker, ClippingByNormsNeedsNoMoreThanPartsOfGradients) {
  using keras::optimizers::AdamOptions;
  for (const AdamOptions& options :
       {AdamOptions{.clipnorm = 0.02}, {.clipvalue = 0.01}, {.global_clipnorm = 0.05}}) {
    for (const auto& [processes, replicas] : {std::pair{2, 1}, {3, 1}, {2, 2}}) {
      in_processes(processes, [options, replicas = replicas](const GroupPtr& group) {
        const auto weights_of = [&](const std::optional<Strategy>& strategy) {
          random::set_seed(11);
          const auto run = [&] {
            keras::Sequential model({keras::layers::Dense(50), keras::layers::Dense(1)});
            model.compile({.optimizer = keras::optimizers::Adam(0.01, options), .loss = "mse"});
            for (int i = 0; i < 4; ++i) model.train_on_batch({features(11)}, {truths(11)});
            return model.get_weights()[0].to_vector<double>();
          };
          if (!strategy) return run();
          const auto scope = strategy->scope();
          return run();
        };
        use_cpus(1);
        const Doubles alone = weights_of({});
        use_cpus(replicas);
        const auto strategy = strategy_of(group, {.communication = {.bucket_bytes = 256}});
        const Doubles together = weights_of(strategy);
        ASSERT_EQ(alone.size(), together.size());
        for (size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(alone[i], together[i], 1e-9) << i;
        const auto& names = group->names();
        EXPECT_NE(std::ranges::find(names, "updated variables"), names.end());
      });
    }
  }
}

TEST(MultiWorker, TheChiefWritesAndAllRestoreItsCheckpoint) {
  in_processes(2, [](const GroupPtr& group) {
    use_cpus(1);
    const harness::TempFolder folder;  // Another one in each process.
    const auto strategy = strategy_of(group);
    const auto scope = strategy.scope();
    const Variable w(vector_of(Doubles{1, 2}), {.name = "w"});
    const train::Checkpoint checkpoint({{"w", w}});
    train::CheckpointManager manager(checkpoint, folder.path());
    manager.save();
    EXPECT_EQ(manager.checkpoints().size(), group->rank() == 0 ? 1u : 0u);
    EXPECT_EQ(checkpoint.save_counter(), 1);
    w.assign(vector_of(Doubles{5.0 + group->rank(), 6}));
    const auto restored = manager.restore_or_initialize();
    ASSERT_TRUE(restored.has_value());
    EXPECT_EQ(restored->filename(), "ckpt-1");
    EXPECT_EQ(w.value().to_vector<double>(), (Doubles{1, 2}));
    EXPECT_EQ(checkpoint.save_counter(), 1);
    // A checkpoint that the chief does not find is an error on all.
    EXPECT_THROW(checkpoint.restore(folder / "nothing"), Error);
  });
}

TEST(MultiWorker, CallbacksThatWriteDoSoOnTheChief) {
  in_processes(2, [](const GroupPtr& group) {
    use_cpus(1);
    const harness::TempFolder folder;
    const auto strategy = strategy_of(group);
    const auto scope = strategy.scope();
    keras::Sequential model({keras::layers::Dense(1)});
    model.compile({.optimizer = "sgd", .loss = "mse"});
    model.fit(features(16), truths(16),
              {.batch_size = 8,
               .epochs = 2,
               .verbose = keras::Verbose::silent,
               .callbacks = {keras::callbacks::CSVLogger(folder / "log.csv"),
                             keras::callbacks::ModelCheckpoint((folder / "m-{epoch}").string(),
                                                               {.monitor = "loss"})},
               .verify_every = 1});
    const bool is_chief = group->rank() == 0;
    EXPECT_EQ(std::filesystem::exists(folder / "log.csv"), is_chief);
    EXPECT_EQ(std::filesystem::exists(folder / "m-2.index"), is_chief);
  });
}

TEST(MultiWorker, SigtermOnOneRankEndsTheTrainingOfAll) {
  const auto ends = harness::ends_of_processes(2, [](const GroupPtr& group) {
    use_cpus(1);
    const auto strategy = strategy_of(group);
    const auto scope = strategy.scope();
    keras::Sequential model({keras::layers::Dense(1)});
    model.compile({.optimizer = "sgd", .loss = "mse"});
    const keras::callbacks::LambdaCallback terminate(
        {.on_batch_end = [&](keras::TrainingRun&, int64_t step) {
          if (group->rank() == 1 && step == 1) std::raise(SIGTERM);
        }});
    EXPECT_TRUE(throws<Unavailable>(
        [&] {
          model.fit(features(80), truths(80),
                    {.batch_size = 8, .verbose = keras::Verbose::silent, .callbacks = {terminate}});
        },
        {"rank 1", "SIGTERM", "at step 3"}));
  });
  if (ends.empty()) return;  // In one of the processes.
  EXPECT_EQ(ends[0].code, 0) << ends[0].output;
  EXPECT_EQ(ends[1].code, -SIGTERM) << ends[1].output;
}

TEST(MultiWorker, ASaveThatOneRankAsksForIsMadeByAllAtTheSameStep) {
  in_processes(2, [](const GroupPtr& group) {
    use_cpus(1);
    const auto strategy = strategy_of(group);
    const auto scope = strategy.scope();
    keras::Sequential model({keras::layers::Dense(1)});
    model.compile({.optimizer = "sgd", .loss = "mse"});
    std::vector<int64_t> saved;
    const keras::callbacks::LambdaCallback asks(
        {.on_batch_end =
             [&](keras::TrainingRun& run, int64_t step) {
               if (group->rank() == 1 && step == 1) run.save();
               if (group->rank() == 0 && step == 5) std::raise(SIGUSR1);
             },
         .on_save = [&](keras::TrainingRun&, int64_t steps) { saved.push_back(steps); }});
    const harness::TempFolder folder;
    model.fit(
        features(80), truths(80),
        {.batch_size = 8,
         .verbose = keras::Verbose::silent,
         .callbacks = {asks, keras::callbacks::ModelCheckpoint(
                                 (folder / "m-{epoch}-{val_loss}").string(), {.save_freq = 2})}});
    EXPECT_EQ(saved, (std::vector<int64_t>{3, 7}));
    EXPECT_EQ(std::filesystem::exists(folder / "m-1-nan.index"), group->rank() == 0);
  });
}

TEST(MultiWorker, FitOnDataOfEachProcessMeetsForThemOnceAnEpoch) {
  // Rank r has batches of 3 + r rows: rank 0 three of them, rank 1 two.
  const auto batch_of = [](int rank, int k) {
    const int64_t begin = 10 * k + (rank == 0 ? 0 : 3);
    return std::pair{features(40).rows(begin, begin + 3 + rank),
                     truths(40).rows(begin, begin + 3 + rank)};
  };
  constexpr int kBatches[] = {3, 2};
  in_processes(2, [&](const GroupPtr& group) {
    const auto make = [] {
      random::set_seed(11);
      keras::Sequential model({keras::layers::Dense(4), keras::layers::Dense(1)});
      model.compile({.optimizer = keras::optimizers::Adam(0.01), .loss = "mse"});
      return model;
    };
    const auto own = [&](int rank) {
      return data::Dataset::from_generator([batch_of, rank, kBatches] {
        return [batch_of, rank, kBatches,
                k = 0]() mutable -> std::optional<std::pair<Tensor, Tensor>> {
          if (k == kBatches[rank]) return std::nullopt;
          return batch_of(rank, k++);
        };
      });
    };
    use_cpus(1);
    const auto alone = make();
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (int k = 0; k < kBatches[0]; ++k) {
        auto [x, y] = batch_of(0, k);
        if (k < kBatches[1]) {
          const auto [more_x, more_y] = batch_of(1, k);
          x = concat({x, more_x}, 0);
          y = concat({y, more_y}, 0);
        }
        alone.train_on_batch({x}, {y});
      }
    }
    std::vector<Doubles> wanted;
    for (const Tensor& weight : alone.get_weights()) wanted.push_back(weight.to_vector<double>());
    use_cpus(1);
    const auto strategy = strategy_of(group);
    const auto scope = strategy.scope();
    const auto model = make();
    const auto dealt = strategy.distribute_dataset(own(group->rank()),
                                                   {.auto_shard_policy = AutoShardPolicy::off});
    const auto history = model.fit(dealt, {.epochs = 2, .verbose = keras::Verbose::silent});
    EXPECT_EQ(history.samples_seen, 2 * (3 * 3 + 2 * 4));
    const auto& names = group->names();
    EXPECT_EQ(std::ranges::count(names, "rows of the data"), 2);
    EXPECT_GT(model.evaluate(dealt, {.verbose = keras::Verbose::silent}).at("loss"), 0);
    for (size_t w = 0; w < wanted.size(); ++w) {
      const Doubles found = model.get_weights()[w].to_vector<double>();
      for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(wanted[w][i], found[i], 1e-9) << w;
    }
    const MirroredStrategy other;
    EXPECT_TRUE(throws<InvalidArgument>(
        [&] { model.fit(other.distribute_dataset(own(0))); },
        {"dealt to the replicas of MirroredStrategy", "of MultiWorkerMirroredStrategy"}));
  });
}

/// What the summary of fit says of a rank: microseconds in all and by phase.
std::map<std::string, double> lag_in(const std::string& text, int rank) {
  std::map<std::string, double> lag;
  const std::string begin = fmt::format("rank {} (worker {}, localhost): ", rank, rank);
  const size_t line = text.find(begin);
  if (line == std::string::npos) return lag;
  double all = 0, data = 0, compute = 0, update = 0, callbacks = 0;
  const int found = std::sscanf(text.c_str() + line + begin.size(),
                                "%lf us (data %lf, compute %lf, update %lf, callbacks %lf)", &all,
                                &data, &compute, &update, &callbacks);
  if (found != 5) return lag;
  return {{"all", all},
          {"data", data},
          {"compute", compute},
          {"update", update},
          {"callbacks", callbacks}};
}

TEST(MultiWorker, TheSummarySaysWhoCameLateAndInWhichPhase) {
  in_processes(2, [](const GroupPtr& group) {
    use_cpus(1);
    const auto strategy = strategy_of(group);
    const auto scope = strategy.scope();
    const auto pause_if = [](bool is_late) {
      if (is_late) std::this_thread::sleep_for(std::chrono::milliseconds(60));
    };
    for (const auto& [phase, late] : {std::pair{"data", 1}, {"callbacks", 0}}) {
      const bool is_late = group->rank() == late;
      const bool is_data = late == 1;
      const auto batches = data::Dataset::range(12).batch(2).map([=](const Tensor& i) {
        pause_if(is_late && is_data);
        const Tensor x = reshape(cast(i, DType::float64), {i.shape()[0], 1});
        return std::pair{x, x};
      });
      const keras::callbacks::LambdaCallback callback(
          {.on_batch_end = [=](keras::TrainingRun&, int64_t) { pause_if(is_late && !is_data); }});
      keras::Sequential model({keras::layers::Dense(1)});
      model.compile({.optimizer = "sgd", .loss = "mse"});
      std::ostringstream out;
      model.fit(
          batches,
          {.epochs = 1, .verbose = keras::Verbose::line, .callbacks = {callback}, .output = &out});
      if (group->rank() != 0) continue;
      auto lag = lag_in(out.str(), late);
      EXPECT_GT(lag["all"], 30'000) << out.str();
      EXPECT_GT(lag[phase], lag["all"] / 2) << out.str();
      EXPECT_NEAR(lag["data"] + lag["compute"] + lag["update"] + lag["callbacks"], lag["all"], 5)
          << out.str();
    }
  });
}

TEST(MultiWorker, ProfilesOfAllProcessesAreOneFileOfTheChief) {
  in_processes(2, [](const GroupPtr& group) {
    use_cpus(1);
    const harness::TempFolder folder;
    const auto strategy = strategy_of(group);
    const auto f = function([](const Tensor& x) {
      return get_replica_context()->all_reduce(ReduceOp::sum, reduce_sum(x));
    });
    profile::start();
    for (int i = 0; i < 3; ++i) strategy.run(f, strategy.split(features(8)));
    const std::string path = (folder / "trace.json").string();
    const profile::Summary summary = stop_profile(strategy, path);
    EXPECT_EQ(summary.steps, 3);
    EXPECT_EQ(std::filesystem::exists(path), group->rank() == 0);
    if (group->rank() != 0) return;
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    for (const char* part :
         {R"("pid":1,"args":{"name":"rank 0)", R"("pid":2,"args":{"name":"rank 1)",
          R"("name":"exchange_sum","cat":"reduce","ph":"X","pid":2)"}) {
      EXPECT_NE(text.find(part), std::string::npos) << part;
    }
  });
}

TEST(ClockOffset, IsWhatAllExchangesAllow) {
  // The other clock is 1000 ahead. In the first exchange it came late, in the second early.
  const std::vector<ExchangeTimes> first{{0, 50}, {100, 110}, {200, 240}};
  const std::vector<ExchangeTimes> other{{1045, 1052}, {1060, 1112}, {1202, 1238}};
  EXPECT_NEAR(static_cast<double>(clock_offset(first, other)), 1000, 5);
}

/// Weights after some steps, of a model that any device computes.
std::vector<std::vector<float>> weights_of_dense(const std::optional<Strategy>& strategy) {
  random::set_seed(11);
  const Tensor x = cast(features(11), DType::float32);
  const Tensor y = cast(truths(11), DType::float32);
  const auto run = [&] {
    keras::Sequential model(
        {keras::layers::Dense(8, {.activation = "tanh"}), keras::layers::Dense(1)});
    model.compile({.optimizer = keras::optimizers::Adam(0.01), .loss = "mse", .metrics = {"mae"}});
    model.fit(x, y, {.batch_size = 5, .epochs = 2, .verbose = keras::Verbose::silent});
    std::vector<std::vector<float>> weights;
    for (const Tensor& weight : model.get_weights()) weights.push_back(weight.to_vector<float>());
    return weights;
  };
  if (!strategy) return run();
  const auto scope = strategy->scope();
  return run();
}

void expect_close(const std::vector<std::vector<float>>& a,
                  const std::vector<std::vector<float>>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t w = 0; w < a.size(); ++w) {
    ASSERT_EQ(a[w].size(), b[w].size());
    for (size_t i = 0; i < a[w].size(); ++i) EXPECT_NEAR(a[w][i], b[w][i], 2e-5) << w << " " << i;
  }
}

TEST(MultiWorker, ReplicasOnDevicesWithMemoryOfTheirOwnMeetThroughTheHosts) {
  for (const std::vector<std::string>& devices :
       {std::vector<std::string>{"/GPU:0"}, {"/GPU:0", "/GPU:1"}, {"/CPU:0", "/GPU:0"}}) {
    in_processes(2, [devices](const GroupPtr& group) {
      use_cpus(1);
      const auto alone = weights_of_dense({});
      use_cpus(1);
      config::add_test_device();
      config::add_test_device();
      const auto strategy = strategy_of(group, {.devices = devices});
      EXPECT_EQ(strategy.num_replicas_in_sync(), 2 * static_cast<int>(devices.size()));
      expect_close(alone, weights_of_dense(strategy));
    });
  }
}

TEST(MultiWorker, ReplicasOnOpenClDevicesMeetThroughTheHosts) {
  for (const std::vector<std::string>& devices :
       {std::vector<std::string>{"/GPU:0"}, {"/GPU:0", "/GPU:1"}}) {
    in_processes(2, [devices](const GroupPtr& group) {
      use_cpus(1);
      const auto alone = weights_of_dense({});
      devices::reset_devices();
      harness::use_opencl();
      const auto strategy = strategy_of(group, {.devices = devices});
      expect_close(alone, weights_of_dense(strategy));
      devices::reset_devices();
    });
  }
}

TEST(MultiWorker, VariablesReadByReplicaAreLocalOutsideOfRuns) {
  in_processes(2, [](const GroupPtr& group) {
    use_cpus(1);
    const auto strategy = strategy_of(group);
    const auto scope = strategy.scope();
    const Variable seen(Tensor(0.0), {.name = "seen",
                                      .aggregation = VariableAggregation::sum,
                                      .synchronization = VariableSynchronization::on_read});
    const auto f = function([&](const Tensor& x) { seen.assign_add(reduce_sum(x)); });
    strategy.run(f, PerReplica(Tensors{vector_of(Doubles{1.0 + group->rank()})}));
    const int before = group->exchanges();
    EXPECT_EQ(seen.value().item<double>(), 1.0 + group->rank());
    EXPECT_EQ(group->exchanges(), before);
  });
}

}  // namespace
}  // namespace tandem::distribute
