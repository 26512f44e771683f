// What happens around a run on several memory spaces: results, copies, variables, failures.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "checkpoint/variable_memory.h"
#include "collective/collective.h"
#include "harness/classifier.h"
#include "harness/replica_group.h"
#include "harness/threads.h"
#include "harness/throws.h"

namespace tandem::graph {
namespace {

using namespace std::chrono_literals;
using distribute::CrossDeviceReduction;
using distribute::MirroredStrategy;
using distribute::PerReplica;
using harness::Classifier;
using harness::components;
using harness::Doubles;
using harness::error_of;
using harness::Names;
using harness::Setting;
using Group = harness::ReplicaGroup;
using SpreadRuns = harness::SpreadDevices;

Tensor column(const Doubles& values) {
  return Tensor::from(values, {static_cast<int64_t>(values.size())});
}

uint64_t bytes_between(const std::string& from, const std::string& to) {
  for (const CopyCount& count : copy_report()) {
    if (count.from == from && count.to == to) return count.bytes;
  }
  return 0;
}

TEST_F(SpreadRuns, EachReplicaReturnsTheRowsOfItsDevice) {
  const MirroredStrategy strategy({"/GPU:0", "/CPU:0", "/GPU:1"});
  const auto twice = function([](const Tensor& x) { return x * 2.0; });
  const PerReplica result = strategy.run(twice, strategy.split(column({1, 2, 3, 4, 5})));
  EXPECT_EQ(result.value(0).to_vector<double>(), (Doubles{2, 4}));
  EXPECT_EQ(result.value(1).to_vector<double>(), (Doubles{6, 8}));
  EXPECT_EQ(result.value(2).to_vector<double>(), (Doubles{10}));
  EXPECT_EQ(result.value(0).device(), "/device:GPU:0");
  EXPECT_EQ(result.value(1).device(), "/device:CPU:0");
  EXPECT_EQ(result.value(2).device(), "/device:GPU:1");
  EXPECT_EQ(strategy.reduce(distribute::ReduceOp::sum, result, 0).item<double>(), 30);
}

TEST_F(SpreadRuns, WithoutCollectivesNobodyWaits) {
  const MirroredStrategy strategy({"/GPU:0", "/GPU:1"});
  const auto twice = function([](const Tensor& x) { return x * 2.0; });
  std::atomic<bool> release{false};
  op::set_instruction_hook([&](int replica, const std::string&) {
    while (replica == 1 && !release) std::this_thread::sleep_for(1ms);
  });
  const PerReplica first = strategy.run(twice, strategy.split(column({1, 2})));
  const PerReplica second = strategy.run(twice, strategy.split(column({3, 4})));
  EXPECT_EQ(second.value(0).to_vector<double>(), (Doubles{6}));
  release = true;
  EXPECT_EQ(first.value(1).to_vector<double>(), (Doubles{4}));
  EXPECT_EQ(second.value(1).to_vector<double>(), (Doubles{8}));
}

TEST_F(SpreadRuns, AssignsReachEveryComponent) {
  const MirroredStrategy strategy({"/GPU:0", "/GPU:1", "/CPU:0"});
  const auto scope = strategy.scope();
  using enum VariableAggregation;
  const Variable sums(Tensor(1.0), {.aggregation = sum});
  const Variable means(Tensor(0.0), {.aggregation = mean});
  const Variable firsts(Tensor(0.0), {.aggregation = only_first_replica});
  const Variable steps(Tensor(0.0), {});
  const auto step = function([&](const Tensor& x) {
    const Tensor total = reduce_sum(x);
    sums.assign_add(total);
    means.assign(total);
    firsts.assign(total);
    steps.assign_add(Tensor(1.0));
    return sums.value() + means.value();
  });
  const PerReplica result = strategy.run(step, strategy.split(column({1, 2, 3, 4, 6})));
  EXPECT_EQ(components(sums), std::vector<Doubles>(3, {17}));
  EXPECT_EQ(components(firsts), std::vector<Doubles>(3, {3}));
  EXPECT_EQ(components(steps), std::vector<Doubles>(3, {1}));
  for (const Doubles& value : components(means)) EXPECT_NEAR(value[0], 16.0 / 3, 1e-15);
  for (int r = 0; r < 3; ++r) {
    EXPECT_NEAR(result.value(r).item<double>(), 17 + 16.0 / 3, 1e-14) << r;
  }
  double saved = 0;
  const checkpoint::VariableImage image(sums);
  ASSERT_EQ(image.run().size(), sizeof(saved));
  image.run().copy(0, sizeof(saved), reinterpret_cast<char*>(&saved));
  EXPECT_EQ(saved, 17);
}

TEST_F(SpreadRuns, AnEagerAssignReachesEveryComponentWhereverItRuns) {
  const MirroredStrategy strategy({"/GPU:0", "/GPU:1", "/CPU:0"});
  const auto scope = strategy.scope();
  const Variable v(Tensor(1.0), {});
  double wanted = 1;
  for (const char* name : {"/GPU:0", "/GPU:1", "/CPU:0"}) {
    const auto here = device(name);
    v.assign_add(Tensor(1.0));
    EXPECT_EQ(components(v), std::vector<Doubles>(3, {++wanted})) << name;
  }
}

TEST_F(SpreadRuns, AVariableOfNoStrategyIsReadWhereverItIs) {
  std::vector<Variable> tables;
  for (const char* name : {"/CPU:0", "/GPU:0"}) {
    const auto scope = device(name);
    tables.emplace_back(Tensor::from({10.0, 20.0}, {1, 2}));
  }
  const MirroredStrategy strategy({"/GPU:1", "/CPU:1"});
  const auto add_tables =
      function([&](const Tensor& x) { return x + tables[0].value() + tables[1].value(); });
  const PerReplica x = strategy.split(Tensor::from({1.0, 2.0, 3.0, 4.0}, {2, 2}));
  EXPECT_EQ(strategy.run(add_tables, x).value(0).to_vector<double>(), (Doubles{21, 42}));
  tables[1].assign(Tensor::from({0.0, 0.0}, {1, 2}));
  const PerReplica again = strategy.run(add_tables, x);
  EXPECT_EQ(again.value(0).to_vector<double>(), (Doubles{11, 22}));
  EXPECT_EQ(again.value(1).to_vector<double>(), (Doubles{13, 24}));
}

/// Central variables that are read, written and read again in one run.
TEST_F(SpreadRuns, WhatIsWrittenAtHomeIsReadAgainElsewhere) {
  for (const char* central : {"/CPU:0", "/GPU:1"}) {
    const Group group({.devices = {"/GPU:0", "/GPU:1"}, .central = central});
    const StoreScope scope(group.store());
    const Variable v(Tensor(1.0), {.aggregation = VariableAggregation::sum});
    const auto step = function([&](const Tensor& x) {
      const Tensor before = v.value() * 1.0;
      v.assign_add(reduce_sum(x));
      const Tensor between = v.value() * 1.0;
      v.assign_add(between);
      return stack({before, between, v.value() * 1.0});
    });
    for (const Doubles& wanted : {Doubles{1, 7, 21}, Doubles{21, 27, 81}}) {
      const auto results = group.run(step, {column({1, 2, 3})});
      for (const Tensors& result : results) {
        EXPECT_EQ(result[0].to_vector<double>(), wanted) << central;
      }
    }
    EXPECT_EQ(v.value().item<double>(), 81);
    EXPECT_EQ(components(v).size(), 1u);
  }
}

TEST_F(SpreadRuns, WhatMovesIsCounted) {
  const auto moved = [](CrossDeviceReduction reduction) {
    const Group group({.devices = {"/GPU:0", "/GPU:1"}, .reduction = reduction});
    const StoreScope scope(group.store());
    const Variable v(fill({1024}, 1.0, DType::float64));
    const keras::optimizers::SGD sgd(0.5);
    const auto step = function([&](const Tensor& x) {
      GradientTape tape;
      const Tensor loss = reduce_sum(x) * reduce_sum(v.value());
      sgd.apply_gradients(tape.gradient(loss, Variables{v}), {v});
      return loss;
    });
    group.run(step, {column({1, 2})});
    reset_copy_report();
    group.run(step, {column({1, 2})});
    EXPECT_EQ(components(v)[1], Doubles(1024, 1 - 2 * 0.5 * 3));
    return std::pair(bytes_between("/device:GPU:0", "/device:GPU:1"),
                     bytes_between("/device:GPU:1", "/device:GPU:0"));
  };
  // The gradient one way, the sum the other; or half of both gradient and variable, each way.
  constexpr uint64_t kBytes = 1024 * 8;
  EXPECT_EQ(moved(CrossDeviceReduction::one_device), std::pair(kBytes, kBytes));
  EXPECT_EQ(moved(CrossDeviceReduction::ranges), std::pair(kBytes, kBytes));
}

TEST_F(SpreadRuns, TheWayToReduceIsChosenBySizeAndSaid) {
  const auto reason = [](int64_t width, const Setting& setting) {
    const Group group(setting);
    const StoreScope scope(group.store());
    const Classifier<double> model({20, width, 10});
    const auto step = model.compiled_step();
    group.total(step, {harness::features<double>(8, 20), harness::labels<double>(8)});
    EXPECT_NE(step.explain().find(group.reduction()), std::string::npos);
    return group.reduction();
  };
  const Names gpus = {"/GPU:0", "/GPU:1"};
  EXPECT_EQ(reason(16, {.devices = gpus}),
            "all_reduce of 4.0 KB between 2 memory spaces: one device, /device:GPU:0, since 262 KB "
            "or less are few");
  EXPECT_EQ(reason(2000, {.devices = gpus}),
            "all_reduce of 496 KB between 2 memory spaces: ranges, since more than 262 KB are too "
            "much for one device to pass on");
  EXPECT_EQ(reason(16, {.devices = gpus, .reduction = CrossDeviceReduction::ranges}),
            "all_reduce of 4.0 KB between 2 memory spaces: ranges, as it was asked for");
  EXPECT_EQ(
      reason(16, {.devices = {"/GPU:0", "/CPU:0"}, .reduction = CrossDeviceReduction::one_device}),
      "all_reduce of 4.0 KB between 2 memory spaces: one device, /device:GPU:0, as it was "
      "asked for");
  EXPECT_EQ(reason(16, {.devices = gpus, .central = "/CPU:0"}),
            "all_reduce of 4.0 KB between 3 memory spaces: one device, /device:CPU:0, since the "
            "variables are there");
  EXPECT_EQ(reason(16, {.devices = {"/CPU:0", "/CPU:1"}}), "");
  EXPECT_EQ(reason(16, {.devices = {"/GPU:0", "/GPU:0"}}), "");
}

TEST_F(SpreadRuns, ASumOfValuesThatFollowTheBatchIsRefused) {
  const Group group({.devices = {"/GPU:0", "/GPU:1"}});
  const auto step = function([](const Tensor& x) { return collective::all_reduce({x})[0]; });
  EXPECT_EQ(error_of<InvalidArgument>([&] {
              group.run(step, {column({1, 2, 3})});
            }),
            "all_reduce: a value float64[None] follows the batch, whose parts differ between "
            "replicas; reduce it over its rows first");
}

/// A classifier under training, in which something goes wrong in the second step.
struct Training {
  explicit Training(const Setting& setting) : group(setting) {}

  double train() {
    return group.total(step, {harness::features<double>(64, 30), harness::labels<double>(64)});
  }
  std::vector<std::vector<Doubles>> state() const {
    std::vector<std::vector<Doubles>> all;
    for (const Variables& variables : {model.variables, model.optimizer.variables()}) {
      for (const Variable& variable : variables) {
        if (variable.dtype() == DType::float64) all.push_back(components(variable));
      }
    }
    return all;
  }

  Group group;
  StoreScope scope{group.store()};
  Classifier<double> model{{30, 16, 10}};
  decltype(model.compiled_step()) step = model.compiled_step();
};

std::vector<double> undisturbed_losses() {
  Training training({.devices = {"/CPU:0", "/CPU:2"}});
  std::vector<double> losses;
  for (int i = 0; i < 3; ++i) losses.push_back(training.train());
  return losses;
}

const Setting kSettings[] = {
    {.devices = {"/GPU:0", "/GPU:1"}, .reduction = CrossDeviceReduction::ranges},
    {.devices = {"/CPU:0", "/GPU:1"}, .reduction = CrossDeviceReduction::one_device},
    {.devices = {"/GPU:0", "/GPU:1", "/CPU:0", "/CPU:1"}},
    {.devices = {"/GPU:0", "/GPU:1"}, .central = "/CPU:0"},
};

TEST_F(SpreadRuns, AnExceptionIsNamedAndTheModelStaysAtTheLastWholeStep) {
  const double second = undisturbed_losses()[1];
  for (const Setting& setting : kSettings) {
    const int last = static_cast<int>(setting.devices.size()) - 1;
    for (int failing : {0, 1, last}) {
      Training training(setting);
      training.train();
      const auto before = training.state();
      op::set_instruction_hook([failing](int replica, const std::string& op) {
        if (replica == failing && op == "softmax_cross_entropy") throw InvalidArgument("bad rows");
      });
      const auto message = error_of<InvalidArgument>([&] { training.train(); });
      EXPECT_EQ(message, "replica " + std::to_string(failing) + " on /device:" +
                             setting.devices[static_cast<size_t>(failing)].substr(1) +
                             ": bad rows");
      EXPECT_EQ(training.state(), before) << setting.str();
      op::set_instruction_hook({});
      EXPECT_NEAR(training.train(), second, 1e-12) << setting.str();
    }
  }
}

TEST_F(SpreadRuns, AfterAFailureNothingMoreOfTheRunIsDone) {
  op::set_instruction_hook([](int replica, const std::string& op) {
    if (replica == 0 && op == "tanh") throw Unavailable("gone");
  });
  const auto changed = [](const Variable& v, auto run) {
    const auto step = function([&](const Tensor& x) {
      const Tensor y = reduce_sum(tanh(x));
      v.assign_add(Tensor(1.0));
      return y;
    });
    const Tensor result = run(step);
    EXPECT_THROW(result.item<double>(), Unavailable);
    return components(v)[0][0] != 0;
  };
  {
    const auto scope = device("/GPU:0");
    EXPECT_FALSE(changed(Variable(Tensor(0.0)), [](auto& step) { return step(column({1})); }));
  }
  const Group group({.devices = {"/GPU:0", "/GPU:1"}});
  const StoreScope scope(group.store());
  EXPECT_FALSE(changed(Variable(Tensor(0.0)), [&](auto& step) {
    return group.run(step, {column({1, 2})})[0][0];
  }));
}

/// Counts its runs, and sums up rows.
struct Counting {
  explicit Counting(const Setting& setting) : group(setting) {}

  void run() { group.run(step, {column({1, 2})}); }
  void expect(double runs, double sum) const {
    EXPECT_EQ(components(steps), std::vector<Doubles>(2, {runs}));
    EXPECT_EQ(components(sums), std::vector<Doubles>(2, {sum}));
  }
  static void fail_on_replica_1() {
    op::set_instruction_hook([](int replica, const std::string& op) {
      if (replica == 1 && op == "assign_add") throw Unavailable("gone");
    });
  }

  Group group;
  StoreScope scope{group.store()};
  Variable steps{Tensor(0.0), {}};
  Variable sums{Tensor(0.0), {.aggregation = VariableAggregation::sum}};
  std::function<void(const Tensor&)> body = [this](const Tensor& x) {
    steps.assign_add(Tensor(1.0));
    sums.assign_add(reduce_sum(x));
  };
  decltype(function(body)) step = function(body);
};

/// One replica has assigned, the other has not: afterwards both have what the first has. Where the
/// other is late, it is once the next run has begun.
TEST_F(SpreadRuns, ComponentsAreTheSameAfterAFailureBetweenAssigns) {
  Counting counting({.devices = {"/CPU:0", "/GPU:1"}});
  counting.run();
  Counting::fail_on_replica_1();
  EXPECT_EQ(error_of<Unavailable>([&] { counting.run(); }), "replica 1 on /device:GPU:1: gone");
  EXPECT_EQ(components(counting.steps)[0], components(counting.steps)[1]);
  EXPECT_EQ(components(counting.sums), std::vector<Doubles>(2, {3}));

  config::set_wait_deadline(100ms);
  auto release = std::make_shared<std::atomic<bool>>(false);
  op::set_instruction_hook([release](int replica, const std::string& op) {
    while (replica == 1 && op == "assign_add" && !*release) std::this_thread::sleep_for(1ms);
  });
  EXPECT_THROW(counting.run(), DeadlineExceeded);
  op::set_instruction_hook({});
  *release = true;
  config::set_wait_deadline(20s);
  counting.run();
  EXPECT_EQ(components(counting.steps)[0], components(counting.steps)[1]);
  EXPECT_EQ(components(counting.sums), std::vector<Doubles>(2, {6}));
}

/// Nobody waits here for a run's end, so a failure shows up when somebody reads.
TEST_F(SpreadRuns, QueuesAreTheSameOnceTheNextRunHasBegunAfterAFailureBetweenAssigns) {
  Counting counting({.devices = {"/GPU:0", "/GPU:1"}});
  counting.run();
  counting.expect(1, 3);
  Counting::fail_on_replica_1();
  counting.run();
  EXPECT_EQ(error_of<Unavailable>([&] { components(counting.steps); }),
            "replica 1 on /device:GPU:1: gone");
  op::set_instruction_hook({});
  EXPECT_EQ(components(counting.sums), std::vector<Doubles>(2, {3}));
  counting.run();
  counting.expect(3, 6);

  config::set_wait_deadline(100ms);
  auto release = std::make_shared<std::atomic<bool>>(false);
  op::set_instruction_hook([release](int replica, const std::string& op) {
    while (replica == 1 && op == "assign_add" && !*release) std::this_thread::sleep_for(1ms);
  });
  counting.run();
  EXPECT_EQ(error_of<DeadlineExceeded>([&] { components(counting.sums); }),
            "/device:GPU:1 did not finish its work within 0.1 s");
  op::set_instruction_hook({});
  *release = true;
  config::set_wait_deadline(20s);
  counting.run();
  counting.expect(5, 12);
}

TEST_F(SpreadRuns, AFailureThatNobodyReadsStopsTheRunAfterTheNext) {
  Counting counting({.devices = {"/GPU:0", "/GPU:1"}});
  counting.run();
  counting.expect(1, 3);
  Counting::fail_on_replica_1();
  int issued = 0;
  EXPECT_EQ(error_of<Unavailable>([&] {
              for (; issued < 3; ++issued) counting.run();
            }),
            "replica 1 on /device:GPU:1: gone");
  EXPECT_LE(issued, 2);
  op::set_instruction_hook({});
  counting.run();
  counting.expect(3, 6);  // What was issued behind the failure was skipped.
}

/// Where CPUs take part the run is given up. Where none does it has been issued, and goes on.
TEST_F(SpreadRuns, AReplicaThatIsNotReadyInTimeIsNamedAndTrainingGoesOn) {
  const std::vector<double> losses = undisturbed_losses();
  for (const Setting& setting : kSettings) {
    Training training(setting);
    training.train();
    const auto before = training.state();
    config::set_wait_deadline(200ms);
    auto release = std::make_shared<std::atomic<bool>>(false);
    op::set_instruction_hook([release](int replica, const std::string& op) {
      while (replica == 1 && op == "softmax_cross_entropy" && !*release)
        std::this_thread::sleep_for(1ms);
    });
    EXPECT_EQ(error_of<DeadlineExceeded>([&] { training.train(); }),
              "/device:GPU:1 did not finish its work within 0.2 s");
    op::set_instruction_hook({});
    *release = true;
    config::set_wait_deadline(20s);
    const bool has_cpu = setting.str().find("CPU") != std::string::npos;
    EXPECT_EQ(training.state() == before, has_cpu) << setting.str();
    EXPECT_NEAR(training.train(), losses[has_cpu ? 1 : 2], 1e-12) << setting.str();
  }
}

TEST_F(SpreadRuns, AStuckQueueIsNamed) {
  devices_with({}, {.stuck = true});
  Training training({.devices = {"/GPU:0", "/GPU:1"}});
  config::set_wait_deadline(100ms);
  EXPECT_EQ(error_of<DeadlineExceeded>([&] { training.train(); }),
            "/device:GPU:1 did not finish its work within 0.1 s");
  restart();  // Nobody need wait for that queue.
}

TEST_F(SpreadRuns, ADeviceWithoutMemoryIsNamedAndASmallerBatchRuns) {
  devices_with({}, {.memory = 2 << 20});
  const Group group({.devices = {"/GPU:0", "/GPU:1"}});
  const StoreScope scope(group.store());
  const Variable v(fill({16, 64}, 0.5, DType::float64));
  const keras::optimizers::SGD sgd(0.1);
  const auto step = function([&](const Tensor& x) {
    GradientTape tape;
    const Tensor loss = reduce_sum(tanh(matmul(x, v.value())));
    sgd.apply_gradients(tape.gradient(loss, Variables{v}), {v});
    return loss;
  });
  const auto run = [&](int64_t rows) {
    group.run(step, {copy_to_device(fill({rows, 16}, 0.01, DType::float64), "/CPU:0")});
  };
  run(8);
  const auto before = components(v);
  const auto message = error_of<ResourceExhausted>([&] { run(20'000); });
  EXPECT_EQ(message.find("replica 1 on /device:GPU:1: /device:GPU:1: out of memory"), 0u)
      << message;
  EXPECT_EQ(components(v), before);
  run(8);
  EXPECT_NE(components(v), before);
  EXPECT_EQ(components(v)[0], components(v)[1]);
}

}  // namespace
}  // namespace tandem::graph
