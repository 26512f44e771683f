// Processes that keep parts of slots, of sums of gradients and of variables: the result of one
// device, what each keeps, and checkpoints that all write.
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "checkpoint/bundle_format.h"
#include "checkpoint/crc32c.h"
#include "checkpoint/files.h"
#include "checkpoint/index_table.h"
#include "checkpoint/process_files.h"
#include "distribute/multi_worker_training.h"
#include "distribute/strategy_body.h"
#include "harness/throws.h"
#include "tandem/checkpoint.h"

namespace tandem::distribute::multi_worker {
namespace {

using harness::in_processes;
using harness::throws;

TEST(MultiWorkerParts, BucketsUpdatedInPartsGiveTheSameResult) {
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

TEST(MultiWorkerParts, SlotsOfWhichEachProcessKeepsAPartAreSavedWhole) {
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

/// Each process writes a file. Without the strategy each goes on in the same way.
TEST(MultiWorkerParts, AllProcessesWriteACheckpointTogether) {
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
TEST(MultiWorkerParts, VariablesInPartsGiveTheResultOfOneDevice) {
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
  const auto check = [&](const GroupPtr& group, int replicas) {
    use_cpus(1);
    const harness::TempFolder own;
    const std::filesystem::path folder = folder_of_chief(group, own);
    const Doubles wanted = train_on(built());
    {
      use_cpus(replicas);
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
  };
  for (const auto& [processes, replicas] : {std::pair{3, 1}, {2, 2}, {2, 3}}) {
    in_processes(processes,
                 [&, replicas = replicas](const GroupPtr& group) { check(group, replicas); });
  }
}

/// The exchanges that join a layer's kernel and bias go on while the layer before it computes.
TEST(MultiWorkerParts, JoinsBeginOneLayerAhead) {
  in_processes(2, [](const GroupPtr& group) {
    use_cpus(1);
    const auto strategy = strategy_of(group, {.shard = Shard::variables});
    const auto scope = strategy.scope();
    // s: a join starts, f: it is finished, m: a layer computes.
    const auto order = [&](bool use_bias) {
      const keras::Sequential model;
      for (int i = 0; i < 4; ++i) model.add(keras::layers::Dense(40, {.use_bias = use_bias}));
      const auto f = function([&](const Tensor& x) { return model(x); });
      strategy.run(f, strategy.split(features(8, 40)));
      std::istringstream lines(f.explain());
      std::string order;
      for (std::string line; std::getline(lines, line);) {
        if (line.find("exchange_join_start") != std::string::npos) order += 's';
        if (line.find("exchange_join_finish") != std::string::npos) order += 'f';
        if (line.find("matmul(") != std::string::npos) order += 'm';
      }
      return order;
    };
    EXPECT_EQ(order(false), "sfsmfsmfsmfm");
    EXPECT_EQ(order(true), "ssffssmffssmffssmffm");
  });
}

class Shards : public testing::TestWithParam<std::tuple<Shard, int, int>> {};

/// Clipping by norms, gradients that accumulate, a constraint that reads what was updated, and a
/// rule of one's own that sees whole values.
TEST_P(Shards, GiveTheResultOfOneDevice) {
  const auto [shard, processes, replicas] = GetParam();
  using keras::optimizers::Optimizer;
  const auto weights_of = [](const Optimizer& optimizer) {
    random::set_seed(11);
    keras::Sequential model(
        {keras::layers::Dense(
             40, {.activation = "tanh", .kernel_constraint = keras::constraints::max_norm(0.6)}),
         keras::layers::Dense(30), keras::layers::Dense(1)});
    model.compile({.optimizer = optimizer, .loss = "mse"});
    for (int i = 0; i < 5; ++i) model.train_on_batch({features(11)}, {truths(11)});
    std::vector<Doubles> weights;
    for (const Tensor& weight : model.get_weights()) weights.push_back(weight.to_vector<double>());
    return weights;
  };
  in_processes(processes, [&, shard = shard, replicas = replicas](const GroupPtr& group) {
    const auto expect_same = [&](const std::function<Optimizer()>& optimizer) {
      use_cpus(1);
      const std::vector<Doubles> wanted = weights_of(optimizer());
      use_cpus(replicas);
      const auto strategy = strategy_of(group, {.shard = shard});
      const auto scope = strategy.scope();
      const std::vector<Doubles> found = weights_of(optimizer());
      for (size_t w = 0; w < wanted.size(); ++w) {
        for (size_t i = 0; i < wanted[w].size(); ++i) {
          EXPECT_NEAR(found[w][i], wanted[w][i], 1e-9) << w << " " << i;
        }
      }
    };
    namespace optimizers = keras::optimizers;
    expect_same([] { return optimizers::Adam(0.01, {.global_clipnorm = 0.05}); });
    expect_same([] {
      return optimizers::SGD(0.1,
                             {.momentum = 0.9, .clipnorm = 0.05, .gradient_accumulation_steps = 2});
    });
    const auto with_momentum = [](const optimizers::VariableStep& at) {
      const Tensor momentum = at.slots[0] * 0.9 + at.gradient;
      return optimizers::VariableUpdate{at.value - at.rate * momentum, {momentum}};
    };
    expect_same([&] {
      return optimizers::Custom(0.01, {.slots = {{.name = "momentum"}}, .update = with_momentum});
    });
  });
}

INSTANTIATE_TEST_SUITE_P(MultiWorkerParts, Shards,
                         testing::Values(std::tuple{Shard::state, 2, 1},
                                         std::tuple{Shard::state, 2, 2},
                                         std::tuple{Shard::gradients, 3, 1},
                                         std::tuple{Shard::gradients, 2, 2}));

TEST(MultiWorkerParts, ReproducibleShardsGiveTheSameBitsWhateverIsInParts) {
  in_processes(2, [](const GroupPtr& group) {
    use_cpus(1);
    const MirroredStrategy whole({}, {.reproducible_shards = 8});
    const Trained alone = train(whole, 43, 10, true, 50);
    for (Shard shard : {Shard::state, Shard::gradients}) {
      use_cpus(2);
      const auto strategy = strategy_of(group, {.reproducible_shards = 8, .shard = shard});
      const Trained together = train(strategy, 43, 10, true, 50);
      EXPECT_EQ(alone.weights, together.weights);
      EXPECT_EQ(alone.history, together.history);
    }
  });
}

/// What TensorFlow reads of a checkpoint of several data files: each entry of the index names one
/// of them and bytes in it that are no other entry's, with their checksum.
void expect_index_of(const std::filesystem::path& prefix, int files) {
  const auto table = checkpoint::decode_index(checkpoint::read_file(prefix.string() + ".index"));
  EXPECT_EQ(checkpoint::decode_header(table.at("")).shards, files);
  std::vector<std::string> data;
  std::vector<std::map<int64_t, int64_t>> ends(static_cast<size_t>(files));
  for (int i = 0; i < files; ++i) {
    data.push_back(checkpoint::read_file(checkpoint::data_name(prefix.string(), i, files)));
  }
  for (const auto& [key, value] : table) {
    if (key.empty()) continue;
    const checkpoint::BundleEntry entry = checkpoint::decode_entry(value);
    const auto file = static_cast<size_t>(entry.shard);
    ASSERT_LT(file, data.size()) << key;
    ASSERT_LE(static_cast<size_t>(entry.offset + entry.bytes), data[file].size()) << key;
    if (entry.bytes > 0) ends[file][entry.offset] = entry.offset + entry.bytes;
    if (entry.type == checkpoint::kStringType) continue;  // These have checksums of another form.
    const char* bytes = data[file].data() + entry.offset;
    EXPECT_EQ(entry.masked_crc, checkpoint::mask_crc32c(checkpoint::extend_crc32c(
                                    0, bytes, static_cast<size_t>(entry.bytes))))
        << key;
  }
  for (size_t file = 0; file < ends.size(); ++file) {
    EXPECT_FALSE(ends[file].empty()) << "data file " << file;
    int64_t end = 0;
    for (const auto& [begin, its_end] : ends[file]) {
      EXPECT_GE(begin, end) << "data file " << file;
      end = its_end;
    }
  }
}

/// Each process keeps a part of each slot, in memory that it has; all write a checkpoint, which
/// goes on on another number of replicas.
TEST(MultiWorkerParts, SlotsInPartsAreOneCheckpoint) {
  struct Training {
    explicit Training(const Strategy& by) : strategy(by) {
      const auto scope = strategy.scope();
      model = keras::Sequential({keras::layers::Dense(200), keras::layers::Dense(1)});
      model.compile({.optimizer = adam = keras::optimizers::Adam(0.01), .loss = "mse"});
    }
    Doubles steps(int count) const {
      const auto scope = strategy.scope();
      for (int i = 0; i < count; ++i) model.train_on_batch({features(9, 100)}, {truths(9)});
      return model.get_weights()[0].to_vector<double>();
    }
    train::Checkpoint checkpoint() const {
      return train::Checkpoint({{"model", model}, {"optimizer", adam}});
    }
    Strategy strategy;
    keras::optimizers::Optimizer adam = keras::optimizers::SGD(0.01);
    keras::Model model = keras::Sequential();
  };
  in_processes(4, [](const GroupPtr& group) {
    use_cpus(1);
    const harness::TempFolder own;
    const std::filesystem::path folder = folder_of_chief(group, own);
    Doubles wanted;
    {
      const Training together(strategy_of(group, {.shard = Shard::state}));
      together.steps(3);
      for (const Variable& slot : together.adam.variables()) {
        if (slot.shape().count() != 100 * 200) continue;
        size_t bytes = 0;
        for (const auto& part : slot.body()->range.block->components()) bytes += part->bytes();
        EXPECT_LT(bytes, size_t{100} * 200 * sizeof(double) * 27 / 100) << slot.name();
      }
      const auto path = together.checkpoint().save(folder / "c");
      const auto file = folder / fmt::format("c-1.data-{:05}-of-00004", group->rank());
      EXPECT_TRUE(std::filesystem::exists(file)) << file;
      if (group->rank() == 0) expect_index_of(folder / "c-1", 4);
      wanted = together.steps(2);
      together.checkpoint().restore(path);
      EXPECT_EQ(together.steps(2), wanted);
    }
    use_cpus(2);
    const Training others(MirroredStrategy({}, {.shard = Shard::gradients}));
    others.steps(1);
    others.checkpoint().restore(folder / "c-1").assert_consumed();
    const Doubles found = others.steps(2);
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-9);
    group->gather_texts("done with the folder", "");
  });
}

TEST(MultiWorkerParts, ACallbacksCheckpointHasWeightsThatAreInParts) {
  in_processes(2, [](const GroupPtr& group) {
    use_cpus(1);
    const harness::TempFolder own;
    const std::filesystem::path folder = folder_of_chief(group, own);
    const auto make = [] {
      return keras::Sequential({keras::layers::Dense(20), keras::layers::Dense(1)});
    };
    Doubles wanted;
    {
      const auto strategy = strategy_of(group, {.shard = Shard::variables});
      const auto scope = strategy.scope();
      const auto model = make();
      model.compile({.optimizer = "adam", .loss = "mse"});
      const keras::callbacks::ModelCheckpoint saves((folder / "m-{epoch}").string(),
                                                    {.monitor = "loss", .save_best_only = true});
      model.fit(
          features(16), truths(16),
          {.batch_size = 8, .epochs = 2, .verbose = keras::Verbose::silent, .callbacks = {saves}});
      EXPECT_TRUE(checkpoint::are_in_parts(model.weights()));
      wanted = model.predict(features(5)).to_vector<double>();
    }
    const auto alone = make();
    alone.predict(features(5));
    train::Checkpoint({{"model", alone}}).restore(folder / "m-2").assert_consumed();
    const Doubles found = alone.predict(features(5)).to_vector<double>();
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-9);
    group->gather_texts("done with the folder", "");
  });
}

TEST(MultiWorkerParts, ProcessesHaveAsManyPartsEach) {
  in_processes(2, [](const GroupPtr& group) {
    use_cpus(1 + group->rank());
    EXPECT_THROW(strategy_of(group, {.shard = Shard::state}), Error);
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

TEST(MultiWorkerParts, SlotsTakeMemoryOnceOverAllProcesses) {
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

TEST(MultiWorkerParts, ClippingByNormsNeedsNoMoreThanPartsOfGradients) {
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

}  // namespace
}  // namespace tandem::distribute::multi_worker
