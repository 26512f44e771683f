/// What all strategies have in common: scopes, contexts, reducing, gathering, data sets.
#include <gtest/gtest.h>

#include <cstring>
#include <sstream>

#include "device/logical_device.h"
#include "device/test/test_device.h"
#include "device/transfer.h"
#include "harness/throws.h"
#include "tandem/tandem.h"
#include "tensor/store.h"

namespace tandem::distribute {
namespace {

using harness::error_of;
class StrategyTest : public testing::Test {
 protected:
  void SetUp() override {
    devices::reset_devices();
    config::set_logical_cpus({{.threads = 1}, {.threads = 1}, {.threads = 1}});
  }
  void TearDown() override { devices::reset_devices(); }
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Tensor column(const std::vector<float>& values) {
  return Tensor::from(values, {static_cast<int64_t>(values.size()), 1});
}

TEST_F(StrategyTest, TheDefaultStrategyHasOneReplicaAndRunsAsWithoutIt) {
  EXPECT_FALSE(has_strategy());
  const Strategy strategy = get_strategy();
  EXPECT_EQ(strategy.num_replicas_in_sync(), 1);
  const auto twice = function([](const Tensor& x) { return x + x; });
  const PerReplica result = strategy.run(twice, column({1, 2}));
  EXPECT_EQ(strategy.reduce(ReduceOp::sum, result).to_vector<float>(), (std::vector<float>{2, 4}));
  EXPECT_EQ(get_replica_context()->num_replicas_in_sync(), 1);
}

TEST_F(StrategyTest, AScopeMakesItsStrategyTheCurrentOneAndNoOtherFitsInside) {
  const MirroredStrategy one;
  const MirroredStrategy other({"/CPU:0"});
  {
    const auto scope = one.scope();
    EXPECT_TRUE(has_strategy());
    EXPECT_EQ(get_strategy(), one);
    EXPECT_TRUE(in_cross_replica_context());
    const auto again = one.scope();
    const std::string error = error_of<FailedPrecondition>([&] { (void)other.scope(); });
    EXPECT_TRUE(contains(error, "scope of MirroredStrategy on /device:CPU:0: called inside"))
        << error;
  }
  EXPECT_FALSE(has_strategy());
}

TEST_F(StrategyTest, AVariableOfAnotherStrategyIsAClearError) {
  const MirroredStrategy one;
  const OneDeviceStrategy other("/CPU:0");
  const Variable variable = [&] {
    const auto scope = other.scope();
    return Variable(Tensor(1.f), {.name = "theirs"});
  }();
  const auto read = function([&](const Tensor& x) { return x * variable; });
  const std::string error = error_of<FailedPrecondition>([&] {
    one.run(read, one.split(column({1, 2, 3})));
  });
  EXPECT_TRUE(contains(error, "in another strategy's scope")) << error;
}

TEST_F(StrategyTest, VariablesOfNoStrategyMayBeReadButNotWritten) {
  const Variable variable(Tensor(2.f), {.aggregation = VariableAggregation::sum});
  const MirroredStrategy strategy;
  const auto read = function([&](const Tensor& x) { return reduce_sum(x * variable); });
  const PerReplica sums = strategy.run(read, strategy.split(column({1, 2, 3})));
  EXPECT_EQ(strategy.reduce(ReduceOp::sum, sums).item<float>(), 12);
  const auto write = function([&](const Tensor& x) { variable.assign_add(reduce_sum(x)); });
  EXPECT_TRUE(contains(error_of<FailedPrecondition>([&] {
                         strategy.run(write, strategy.split(column({1, 2, 3})));
                       }),
                       "outside of any strategy's scope"));
}

TEST_F(StrategyTest, ReducesElementwiseAndAlongAnAxisByTrueCounts) {
  const MirroredStrategy strategy;
  const PerReplica batch = strategy.split(column({1, 2, 3, 10}));  // 2, 1 and 1 rows.
  const auto same = function([](const Tensor& x) { return x * 1.f; });
  const PerReplica rows = strategy.run(same, batch);
  EXPECT_EQ(strategy.reduce(ReduceOp::mean, rows, 0).to_vector<float>(), std::vector<float>{4});
  EXPECT_EQ(strategy.reduce(ReduceOp::sum, rows, -2).to_vector<float>(), std::vector<float>{16});
  EXPECT_EQ(strategy.gather(rows, 0).to_vector<float>(), (std::vector<float>{1, 2, 3, 10}));
  EXPECT_TRUE(contains(error_of<InvalidArgument>([&] { strategy.reduce(ReduceOp::sum, rows, 2); }),
                       "axis 2"));
  EXPECT_TRUE(contains(error_of<InvalidArgument>([&] { strategy.gather(rows, -3); }), "axis -3"));
}

TEST_F(StrategyTest, ReplicasSeeTheirNumberAndEachOther) {
  const MirroredStrategy strategy;
  const auto f = function([&](const Tensor& x) {
    const ReplicaContext context = *get_replica_context();
    EXPECT_EQ(context.num_replicas_in_sync(), 3);
    EXPECT_EQ(context.strategy(), strategy);
    EXPECT_FALSE(in_cross_replica_context());
    const Tensor id = cast(context.replica_id_in_sync_group(), DType::float32);
    return Tensors{context.all_reduce(ReduceOp::sum, id), context.all_reduce(ReduceOp::mean, id),
                   context.all_gather(reshape(id, {1}), 0), reduce_sum(x) + id};
  });
  const PerReplicas results = strategy.run(f, strategy.split(column({0, 0, 0, 0})));
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(results[0].value(r).item<float>(), 3);
    EXPECT_EQ(results[1].value(r).item<float>(), 1);
    EXPECT_EQ(results[2].value(r).to_vector<float>(), (std::vector<float>{0, 1, 2}));
    EXPECT_EQ(results[3].value(r).item<float>(), static_cast<float>(r));
  }
}

TEST_F(StrategyTest, AllGatherAlongTheLastAxisHasAGradient) {
  const MirroredStrategy strategy({"/CPU:0", "/CPU:1"});
  const auto f = function([&](const Tensor& rows) {
    const Tensor x = reduce_sum(rows, {.axes = std::vector<int>{0}, .keepdims = true});  // [1,1]
    GradientTape tape;
    tape.watch(x);
    const Tensor all = get_replica_context()->all_gather(x, -1);  // [1,2]
    const Tensor weights = Tensor::from(std::vector<float>{3, 5}, {1, 2});
    return Tensors{all, tape.gradient(reduce_sum(all * weights), x)};
  });
  const PerReplicas results = strategy.run(f, strategy.split(column({7, 9})));
  EXPECT_EQ(results[0].value(1).to_vector<float>(), (std::vector<float>{7, 9}));
  // Both replicas' losses depend on each value.
  EXPECT_EQ(results[1].value(0).item<float>(), 6);
  EXPECT_EQ(results[1].value(1).item<float>(), 10);
}

TEST_F(StrategyTest, AllGatherOfTheBatchsRowsSaysWhatToDo) {
  const MirroredStrategy strategy;
  const auto f = function([&](const Tensor& x) { return get_replica_context()->all_gather(x, 0); });
  EXPECT_TRUE(contains(error_of<InvalidArgument>([&] {
                         strategy.run(f, strategy.split(column({1, 2, 3})));
                       }),
                       "use strategy.gather"));
}

TEST_F(StrategyTest, MergeCallSeesAllReplicas) {
  const MirroredStrategy strategy;
  const auto scope = strategy.scope();
  const Variable total(Tensor(0.f), {.aggregation = VariableAggregation::only_first_replica});
  const auto f = function([&](const Tensor& x) {
    return get_replica_context()->merge_call(
        [&](const Strategy& all, const PerReplica& rows) {
          EXPECT_TRUE(in_cross_replica_context());
          const Tensor sum = all.reduce(ReduceOp::sum, rows, 0);
          total.assign(reshape(sum, {}));
          return Tensors{all.reduce(ReduceOp::mean, rows, 0)};
        },
        x);
  });
  const PerReplicas mean = strategy.run(f, strategy.split(column({1, 2, 3, 6})));
  EXPECT_EQ(mean[0].value(2).item<float>(), 3);
  EXPECT_EQ(total.value().item<float>(), 12);
}

TEST_F(StrategyTest, ReduceInsideAReplicaIsAnErrorThatNamesTheOtherWay) {
  const MirroredStrategy strategy;
  const auto f = function([&](const Tensor& x) { return strategy.reduce(ReduceOp::sum, x); });
  EXPECT_TRUE(contains(error_of<FailedPrecondition>([&] {
                         strategy.run(f, strategy.split(column({1, 2, 3})));
                       }),
                       "get_replica_context()->all_reduce"));
}

TEST_F(StrategyTest, DistributesBatchesByExactCountAndRestoresThePosition) {
  const MirroredStrategy strategy;
  const auto batches = data::Dataset::from_tensor_slices(column({0, 1, 2, 3, 4, 5, 6})).batch(4);
  const DistributedDataset distributed = strategy.experimental_distribute_dataset(batches);
  EXPECT_EQ(distributed.cardinality(), 2);
  std::vector<std::vector<int64_t>> rows;
  const auto sum = function([](const Tensor& x) { return reduce_sum(x); });
  float total = 0;
  for (const PerReplicas& batch : distributed) {
    rows.emplace_back();
    for (int r = 0; r < 3; ++r) rows.back().push_back(batch[0].value(r).shape()[0]);
    total += strategy.reduce(ReduceOp::sum, strategy.run(sum, batch)).item<float>();
  }
  EXPECT_EQ(rows, (std::vector<std::vector<int64_t>>{{2, 1, 1}, {1, 1, 1}}));
  EXPECT_EQ(total, 21);

  DistributedDataset::Iterator iterator = distributed.iterator(0);
  iterator.next();
  DistributedDataset::Iterator again = distributed.restore(iterator.save());
  EXPECT_EQ((*again.next())[0].value(0).to_vector<float>(), std::vector<float>{4});
  EXPECT_FALSE(again.next());
}

TEST_F(StrategyTest, DataSetsFromAFunctionGiveEachReplicaABatchAndEmptyOnesAtTheEnd) {
  const MirroredStrategy strategy;
  const DistributedDataset distributed =
      strategy.distribute_datasets_from_function([](const InputContext& context) {
        EXPECT_EQ(context.num_replicas_in_sync, 3);
        return data::Dataset::from_tensor_slices(column({0, 1, 2, 3, 4, 5, 6, 7}))
            .batch(context.get_per_replica_batch_size(6));
      });
  EXPECT_EQ(distributed.cardinality(), 2);
  DistributedDataset::Iterator iterator = distributed.iterator();
  EXPECT_EQ((*iterator.next())[0].value(2).to_vector<float>(), (std::vector<float>{4, 5}));
  const PerReplicas last = *iterator.next();
  EXPECT_EQ(last[0].value(0).to_vector<float>(), (std::vector<float>{6, 7}));
  EXPECT_EQ(last[0].value(1).shape(), (Shape{0, 1}));
  EXPECT_FALSE(iterator.next());
  EXPECT_TRUE(contains(error_of<InvalidArgument>([] {
                         (void)InputContext{.num_replicas_in_sync = 3}.get_per_replica_batch_size(
                             8);
                       }),
                       "8 rows cannot be dealt evenly to 3 replicas"));
}

TEST_F(StrategyTest, AnUnbatchedDataSetSaysSo) {
  const MirroredStrategy strategy;
  auto iterator = strategy.distribute_dataset(data::Dataset::range(3)).iterator();
  EXPECT_TRUE(contains(error_of<InvalidArgument>([&] { iterator.next(); }), "batch the data set"));
}

TEST_F(StrategyTest, AValuePrintsEachReplicasShare) {
  std::ostringstream text;
  text << PerReplica::split(column({1, 2, 3}), 2);
  EXPECT_TRUE(contains(text.str(), "PerReplica:{\n  0: ")) << text.str();
  EXPECT_TRUE(contains(text.str(), "\n  1: ")) << text.str();
}

TEST_F(StrategyTest, OnReadVariablesHaveAValueOnEachReplicaAndAnAggregateOutside) {
  const MirroredStrategy strategy;
  const auto scope = strategy.scope();
  const auto make = [](VariableAggregation aggregation) {
    return Variable(Tensor(0.f), {.aggregation = aggregation,
                                  .synchronization = VariableSynchronization::on_read});
  };
  const Variable sum = make(VariableAggregation::sum);
  const Variable mean = make(VariableAggregation::mean);
  const Variable first = make(VariableAggregation::only_first_replica);
  const Variable unread = make(VariableAggregation::none);
  EXPECT_FALSE(sum.trainable());
  const auto f = function([&](const Tensor& x) {
    const Tensor rows = reduce_sum(ones_like(x));
    for (const Variable& variable : {sum, mean, first, unread}) variable.assign_add(rows);
    return sum.value();
  });
  const PerReplica batch = strategy.split(column({1, 1, 1, 1}));
  strategy.run(f, batch);
  const PerReplica own = strategy.run(f, batch);
  EXPECT_EQ(own.value(0).item<float>(), 4);
  EXPECT_EQ(own.value(2).item<float>(), 2);
  EXPECT_EQ(sum.value().item<float>(), 8);
  EXPECT_FLOAT_EQ(mean.value().item<float>(), 8.f / 3);
  EXPECT_EQ(first.value().item<float>(), 4);
  EXPECT_TRUE(contains(error_of<FailedPrecondition>([&] { unread.value(); }), "aggregation"));

  sum.assign(Tensor(5.f));
  EXPECT_EQ(sum.value().item<float>(), 5);
  mean.assign(Tensor(5.f));
  EXPECT_EQ(mean.value().item<float>(), 5);
  sum.assign_add(Tensor(1.f));
  EXPECT_EQ(sum.value().item<float>(), 6);
  const auto plain = function([&](const Tensor& x) { return x + sum; });
  EXPECT_TRUE(contains(error_of<FailedPrecondition>([&] { plain(Tensor(1.f)); }), "strategy.run"));
}

TEST_F(StrategyTest, SynchronizationNoneIsRefusedForReplicas) {
  const VariableOptions none{.synchronization = VariableSynchronization::none};
  EXPECT_NO_THROW(Variable(Tensor(0.f), none));
  const MirroredStrategy strategy;
  const auto scope = strategy.scope();
  EXPECT_TRUE(contains(error_of<InvalidArgument>([&] { Variable(Tensor(0.f), none); }),
                       "on_write and on_read are accepted"));
}

TEST_F(StrategyTest, OnReadVariablesOfReplicasInOtherMemorySpaces) {
  devices::test::add_test_gpu();
  for (const Strategy& strategy : {Strategy(MirroredStrategy({"/GPU:0", "/CPU:0"})),
                                   Strategy(CentralStorageStrategy({"/GPU:0", "/CPU:0"}))}) {
    const auto scope = strategy.scope();
    const Variable rows(Tensor(0.f), {.aggregation = VariableAggregation::sum,
                                      .synchronization = VariableSynchronization::on_read});
    const auto f = function([&](const Tensor& x) { rows.assign_add(reduce_sum(x)); });
    strategy.run(f, strategy.split(column({1, 2, 4})));
    strategy.run(f, strategy.split(column({1, 2, 4})));
    EXPECT_EQ(rows.value().item<float>(), 14);
  }
}

TEST_F(StrategyTest, VerifyNamesTheReplicaAndTheFirstVariableThatDiffer) {
  devices::test::add_test_gpu();
  const MirroredStrategy strategy({"/CPU:0", "/GPU:0"});
  const auto scope = strategy.scope();
  const Variable same(fill({3}, 1), {.name = "same"});
  const Variable other(fill({3}, 2), {.name = "other"});
  strategy.verify({same, other});
  const StoreRange& range = other.body()->range;
  const Buffer& component = *range.block->components()[1];
  const float wrong = 7;
  devices::write_in_chunks(*component.device(),
                           static_cast<float*>(component.data()) + range.offset + 2, sizeof wrong,
                           [&](char* chunk, size_t bytes) { std::memcpy(chunk, &wrong, bytes); });
  const std::string error = error_of<DataLoss>([&] { strategy.verify({same, other}); });
  EXPECT_TRUE(contains(error, "replica 1 on /device:GPU:0")) << error;
  EXPECT_TRUE(contains(error, "variable 'other'")) << error;
}

TEST_F(StrategyTest, ExplainsItself) {
  EXPECT_TRUE(contains(MirroredStrategy().explain(), "replica 2 on /device:CPU:2, 1 thread"));
  EXPECT_TRUE(contains(CentralStorageStrategy().explain(), "variables on /device:CPU:0"));
  EXPECT_TRUE(contains(OneDeviceStrategy("/CPU:1").explain(), "OneDeviceStrategy: 1 replica\n"));
}

}  // namespace
}  // namespace tandem::distribute
