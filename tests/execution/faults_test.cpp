// Programs on queues, and what commands have found wrong: bad arguments, runs that do not count.
#include <gtest/gtest.h>

#include <set>

#include "harness/replica_group.h"
#include "harness/throws.h"
#include "runtime/random_calls.h"

namespace tandem::graph {
namespace {

using distribute::MirroredStrategy;
using harness::Doubles;
using harness::throws;
using Group = harness::ReplicaGroup;
using FaultyRuns = harness::SpreadDevices;
using Indices = std::vector<int32_t>;

Tensor doubles(const Doubles& values) {
  return Tensor::from(values, {static_cast<int64_t>(values.size())});
}

Tensor index(int32_t row) { return Tensor::from(Indices{row}, {1}); }

bool is_bad(const Tensor& tensor) {
  return static_cast<bool>(
      throws<InvalidArgument>([&] { tensor.to_vector<double>(); }, {"gather: "}));
}

/// A row of a table that has none at this index, once its error has been seen.
Tensor known_bad(const char* name) {
  const auto scope = device(name);
  const Tensor bad = gather(doubles({1, 2, 3}), index(7));
  EXPECT_TRUE(is_bad(bad));
  return bad;
}

TEST_F(FaultyRuns, ARunWithABadArgumentIsBadAndChangesNothing) {
  const auto scope = device("/GPU:0");
  const Variable sum(Tensor(0.0));
  const auto step = function([&](const Tensor& x) {
    sum.assign_add(reduce_sum(x));
    return x * 2.0;
  });
  step(doubles({1}));
  for (const char* name : {"/GPU:0", "/GPU:1"}) {
    const Tensor bad = known_bad(name);
    const Tensor result = step(bad);
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(is_bad(result)) << name;
    EXPECT_EQ(sum.value().item<double>(), 1) << name;
  }
  EXPECT_EQ(step(doubles({4})).to_vector<double>(), (Doubles{8}));
  EXPECT_EQ(sum.value().item<double>(), 5);
}

TEST_F(FaultyRuns, ABadArgumentOfOneReplicaIsBadForAll) {
  const MirroredStrategy strategy({"/GPU:0", "/GPU:1"});
  const auto scope = strategy.scope();
  const Variable sum(Tensor(0.0), {.aggregation = VariableAggregation::sum});
  const auto step = function([&](const Tensor& x) {
    sum.assign_add(reduce_sum(x));
    return x * 2.0;
  });
  const auto run = [&](const Tensor& first, const Tensor& second) {
    return strategy.run(step, distribute::PerReplica(Tensors{first, second}));
  };
  run(doubles({1}), doubles({2}));
  const Tensor bad = known_bad("/GPU:1");
  EXPECT_TRUE(is_bad(run(doubles({1}), bad).value(1)));
  EXPECT_EQ(harness::components(sum), std::vector<Doubles>(2, {3}));
  EXPECT_EQ(run(doubles({1}), doubles({5})).value(1).to_vector<double>(), (Doubles{10}));
  EXPECT_EQ(harness::components(sum), std::vector<Doubles>(2, {9}));
}

/// The program keeps its constants on the device. They are copied there by its first run, which may
/// be issued behind a fault that has nothing to do with them.
TEST_F(FaultyRuns, ConstantsThatWereCopiedBehindAFaultStayGood) {
  const Tensor constant = doubles({10, 20, 30});
  const auto scope = device("/GPU:0");
  const auto add_constant = function([&](const Tensor& x) { return x + constant; });
  const Tensor bad = gather(doubles({1, 2, 3}), index(7));
  EXPECT_TRUE(is_bad(add_constant(doubles({1, 2, 3}))));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(add_constant(doubles({1, 2, 3})).to_vector<double>(), (Doubles{11, 22, 33}));
  }
}

TEST_F(FaultyRuns, ABadConstantMakesEachRunBad) {
  const Tensor bad = known_bad("/GPU:0");
  const auto scope = device("/GPU:0");
  const auto add_constant = function([&](const Tensor& x) { return x + bad; });
  const auto use = [&] { add_constant(doubles({1})).to_vector<double>(); };
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(throws<InvalidArgument>(use, {"gather: "}));
}

uint64_t drawn() { return runtime::random_state().calls; }

/// Draws a number and takes a row of a table.
FlatFunction drawing_step(const Tensor& table) {
  return FlatFunction([table](const Tensors& arguments) {
    return Tensors{gather(table, arguments[0]) +
                   random_uniform({1}, 0, 1, {.dtype = DType::float64})};
  });
}

TEST_F(FaultyRuns, RunsThatFailedDrewNoRandomNumbers) {
  for (const char* name : {"/CPU:1", "/GPU:0"}) {
    const auto scope = device(name);
    const FlatFunction step = drawing_step(doubles({0, 0, 0}));
    const auto run = [&](int32_t row) { return step(Tensors{index(row)})[0]; };
    random::set_seed(3);
    const Doubles first = run(0).to_vector<double>();
    const Doubles second = run(0).to_vector<double>();
    random::set_seed(3);
    EXPECT_EQ(run(0).to_vector<double>(), first);
    const uint64_t before = drawn();
    EXPECT_TRUE(throws<InvalidArgument>(
        [&] {
          const Tensor bad = run(7);
          const Tensor behind = run(0);
          EXPECT_GT(drawn(), before);
          bad.to_vector<double>();
        },
        {"gather: "}))
        << name;
    EXPECT_EQ(drawn(), before) << name;
    EXPECT_EQ(run(0).to_vector<double>(), second) << name;
  }
}

TEST_F(FaultyRuns, RandomNumbersThatOthersDrewMeanwhileAreNotDrawnAgain) {
  const auto scope = device("/GPU:0");
  const FlatFunction step = drawing_step(doubles({0, 0, 0}));
  step(Tensors{index(0)});
  const Tensor bad = step(Tensors{index(7)})[0];
  const auto on_host = device("/CPU:0");
  random_uniform({1});
  const uint64_t after = drawn();
  EXPECT_TRUE(is_bad(bad));
  EXPECT_EQ(drawn(), after);
}

TEST_F(FaultyRuns, ReplicasThatFailedDrewNoRandomNumbers) {
  for (const harness::Names& names : {harness::Names{"/GPU:0", "/GPU:1"}, {"/CPU:0", "/GPU:1"}}) {
    const Group group({.devices = names});
    const FlatFunction step = drawing_step(doubles({0, 0, 0}));
    const auto run = [&](const Indices& rows) {
      return group.run(step, {Tensor::from(rows, {2})})[1][0].to_vector<double>();
    };
    run({0, 0});
    const uint64_t before = drawn();
    EXPECT_TRUE(throws<InvalidArgument>([&] { run({0, 7}); }, {"gather: "}));
    EXPECT_EQ(drawn(), before) << names[0];
    run({0, 0});
    EXPECT_GT(drawn(), before);
  }
}

/// A captured list of commands can then be run again.
TEST_F(FaultyRuns, ArgumentsAndResultsKeepTheirAddressesUnlessSomebodyHoldsTheLastResult) {
  const auto scope = device("/GPU:0");
  const auto step = function([](const Tensor& x) { return x * 2.0; });
  std::set<const void*> landings;
  const auto run = [&](const Doubles& values) {
    const Tensors arguments{doubles(values)};
    const auto called = step.body()->call({graph::argument_list(arguments)});
    landings.insert(called.results.execution().argument(0, 0));
    return called[0];
  };
  const auto address = [](const Tensor& tensor) { return tensor.body()->data(); };
  const void* const place = address(run({1, 2}));
  for (double i = 0; i < 5; ++i) {
    const Tensor result = run({i, i});
    EXPECT_EQ(address(result), place);
    EXPECT_EQ(result.to_vector<double>(), (Doubles{2 * i, 2 * i}));
  }
  const Tensor held = run({3, 4});
  const Tensor next = run({5, 6});
  EXPECT_EQ(address(held), place);
  EXPECT_NE(address(next), place);
  EXPECT_EQ(held.to_vector<double>(), (Doubles{6, 8}));
  EXPECT_EQ(next.to_vector<double>(), (Doubles{10, 12}));
  EXPECT_EQ(landings.size(), 1u);
}

}  // namespace
}  // namespace tandem::graph
