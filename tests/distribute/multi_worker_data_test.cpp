// The data of processes that train together: dealt in the order of one device, or each with its
// own.
#include <fmt/format.h>

#include <algorithm>

#include "distribute/multi_worker_training.h"
#include "harness/throws.h"

namespace tandem::distribute::multi_worker {
namespace {

using harness::in_processes;
using harness::throws;

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

TEST(MultiWorkerData, DataAreDealtInTheOrderOfOneDevice) {
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
    // Only the own ones are made of elements that can be counted.
    calls = 0;
    std::vector<int64_t> rows;
    all_rows_of(strategy, strategy.distribute_dataset(numbers.batch(6)), rows);
    EXPECT_LE(calls, 23 / 3 + 4);
  });
}

TEST(MultiWorkerData, DataOfEachProcessEndUnevenly) {
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

TEST(MultiWorkerData, FilesAreReadByOneProcessEach) {
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

TEST(MultiWorkerData, FitOnDataOfEachProcessMeetsForThemOnceAnEpoch) {
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

}  // namespace
}  // namespace tandem::distribute::multi_worker
