// MultiWorkerMirroredStrategy over real processes and a plain transport: what it computes is what
// one device computes, for any number of processes and replicas.
#include "distribute/multi_worker.h"

#include <fmt/format.h>
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
#include "distribute/merged_profile.h"
#include "distribute/multi_worker_training.h"
#include "distribute/strategy_body.h"
#include "harness/opencl.h"
#include "harness/throws.h"
#include "op/instruction_hook.h"

namespace tandem::distribute::multi_worker {
namespace {

using harness::in_processes;
using harness::throws;

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
}  // namespace tandem::distribute::multi_worker
