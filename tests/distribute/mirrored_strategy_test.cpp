#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "device/logical_device.h"
#include "device/test/test_device.h"
#include "execution/execution.h"
#include "harness/classifier.h"
#include "harness/threads.h"
#include "harness/throws.h"

namespace tandem::distribute {
namespace {

using namespace std::chrono_literals;
using harness::Classifier;
using harness::error_of;

class MirroredStrategyTest : public testing::Test {
 protected:
  void SetUp() override {
    devices::reset_devices();
    config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  }
  void TearDown() override {
    op::set_instruction_hook({});
    config::set_wait_deadline(120s);
    devices::reset_devices();
  }
};

using Mirrored = MirroredStrategyTest;

/// A model under training on two replicas.
struct Training {
  MirroredStrategy strategy{};
  Classifier<double> model = [this] {
    const auto scope = strategy.scope();
    return Classifier<double>();
  }();
  decltype(model.compiled_step()) step = model.compiled_step();
  PerReplica x = strategy.split(harness::features<double>(64));
  PerReplica y = strategy.split(harness::labels<double>(64));

  double train() { return strategy.reduce(ReduceOp::sum, strategy.run(step, x, y)).item<double>(); }
  std::vector<double> weights() const { return model.variables[0].value().to_vector<double>(); }
};

/// The loss of the second step of a training that nothing goes wrong in.
double undisturbed_second_loss() {
  Training training;
  training.train();
  return training.train();
}

TEST_F(Mirrored, UsesAllLogicalCpusUnlessToldOtherwise) {
  EXPECT_EQ(MirroredStrategy().devices(),
            (std::vector<std::string>{"/device:CPU:0", "/device:CPU:1"}));
  EXPECT_EQ(MirroredStrategy({"/cpu:1"}).num_replicas_in_sync(), 1);
}

TEST_F(Mirrored, RefusesUnknownAndRepeatedDevices) {
  EXPECT_NE(error_of<NotFound>([] { MirroredStrategy({"/GPU:0"}); }).find("/device:CPU:1"),
            std::string::npos);
  EXPECT_NE(error_of<InvalidArgument>([] {
              MirroredStrategy({"/CPU:0", "cpu:0"});
            }).find("given twice"),
            std::string::npos);
}

/// The CPU's component of a variable is read and written beside the GPU's.
TEST_F(Mirrored, TrainsOnAGpuBesideLogicalCpus) {
  const double second = undisturbed_second_loss();
  devices::reset_devices();
  devices::test::add_test_gpu();
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  Training training{MirroredStrategy({"/CPU:1", "/GPU:0", "/CPU:0"})};
  training.train();
  EXPECT_NEAR(training.train(), second, 1e-12);
}

TEST_F(Mirrored, SplitsByExactCountLargerPartsFirst) {
  const Tensor batch = Tensor::from({0.f, 1.f, 2.f, 3.f, 4.f}, {5});
  const PerReplica parts = PerReplica::split(batch, 3);
  EXPECT_EQ(parts.value(0).to_vector<float>(), (std::vector<float>{0, 1}));
  EXPECT_EQ(parts.value(1).to_vector<float>(), (std::vector<float>{2, 3}));
  EXPECT_EQ(parts.value(2).to_vector<float>(), (std::vector<float>{4}));
  EXPECT_EQ(PerReplica::split(batch, 6).value(5).shape(), (Shape{0}));
  EXPECT_THROW(PerReplica::split(Tensor(1.f), 2), InvalidArgument);
}

TEST_F(Mirrored, EachReplicaSeesItsRows) {
  const MirroredStrategy strategy;
  const auto twice = function([](const Tensor& x) { return x * 2.0; });
  const PerReplica result = strategy.run(twice, strategy.split(Tensor::from({1.f, 2.f, 3.f}, {3})));
  EXPECT_EQ(result.value(0).to_vector<float>(), (std::vector<float>{2, 4}));
  EXPECT_EQ(result.value(1).to_vector<float>(), (std::vector<float>{6}));
  EXPECT_NE(result.str().find("1: Tensor([6.], shape=[1]"), std::string::npos);
  EXPECT_EQ(strategy.local_results(result).size(), 2u);
}

TEST_F(Mirrored, APlainTensorGoesWholeToEachReplica) {
  const MirroredStrategy strategy;
  const auto add_table = function([](const Tensor& x, const Tensor& table) { return x + table; });
  const Tensor x = Tensor::from({1.f, 2.f, 3.f, 4.f}, {2, 2});
  const Tensor table = Tensor::from({10.f, 20.f}, {1, 2});
  const PerReplica result = strategy.run(add_table, strategy.split(x), table);
  EXPECT_EQ(result.value(1).to_vector<float>(), (std::vector<float>{13, 24}));
}

TEST_F(Mirrored, ReduceSumsAndDividesByTheTrueCount) {
  const MirroredStrategy strategy;
  const PerReplica parts = strategy.split(Tensor::from({1.f, 2.f, 6.f}, {3}));
  EXPECT_FLOAT_EQ(strategy.reduce(ReduceOp::sum, parts, 0).item<float>(), 9);
  EXPECT_FLOAT_EQ(strategy.reduce(ReduceOp::mean, parts, 0).item<float>(), 3);
  const PerReplica scalars(Tensors{Tensor(1.f), Tensor(4.f)});
  EXPECT_FLOAT_EQ(strategy.reduce(ReduceOp::sum, scalars).item<float>(), 5);
  EXPECT_FLOAT_EQ(strategy.reduce(ReduceOp::mean, scalars).item<float>(), 2.5);
  EXPECT_EQ(error_of<InvalidArgument>([&] { strategy.reduce(ReduceOp::sum, parts); }),
            "reduce: the replicas' values have shapes [2] and [1]; they must be equal, or an axis "
            "given to reduce them along");
}

TEST_F(Mirrored, AssignsInsideRunNeedAnAggregation) {
  const MirroredStrategy strategy;
  const auto scope = strategy.scope();
  const Variable none(Tensor(0.f), {.name = "none"});
  const auto assign = function([&](const Tensor& x) { none.assign(reduce_sum(x)); });
  const Tensor x = Tensor::from({1.f, 2.f, 3.f}, {3});
  EXPECT_NE(error_of<InvalidArgument>([&] {
              strategy.run(assign, strategy.split(x));
            }).find("aggregation"),
            std::string::npos);

  const auto value_after = [&](VariableAggregation aggregation) {
    const Variable variable(Tensor(0.f), {.aggregation = aggregation});
    const auto step = function([&](const Tensor& part) { variable.assign(reduce_sum(part)); });
    strategy.run(step, strategy.split(x));
    return variable.value().item<float>();
  };
  EXPECT_FLOAT_EQ(value_after(VariableAggregation::sum), 6);
  EXPECT_FLOAT_EQ(value_after(VariableAggregation::mean), 3);
  EXPECT_FLOAT_EQ(value_after(VariableAggregation::only_first_replica), 3);
}

TEST_F(Mirrored, ValuesThatReplicasShareAreAssignedWithoutAnAggregation) {
  const MirroredStrategy strategy;
  const auto scope = strategy.scope();
  const Variable slot(Tensor(1.f), {.name = "slot"});
  const Variable weight(Tensor(10.f), {.name = "weight"});
  const auto step = function([&](const Tensor& x) {
    const Tensor sum = get_replica_context()->all_reduce(ReduceOp::sum, reduce_sum(x));
    slot.assign(slot.value() * 0.5f + sum);
    weight.assign_sub(slot.value() * 2.f);
    weight.assign(minimum(weight.value(), 3.f));
  });
  strategy.run(step, strategy.split(Tensor::from({1.f, 2.f, 3.f}, {3})));
  EXPECT_FLOAT_EQ(slot.value().item<float>(), 6.5f);
  EXPECT_FLOAT_EQ(weight.value().item<float>(), -3.f);

  const auto of_its_own = function([&](const Tensor& x) {
    slot.assign(cast(get_replica_context()->replica_id_in_sync_group(), DType::float32));
    return x;
  });
  EXPECT_NE(error_of<InvalidArgument>([&] {
              strategy.run(of_its_own, strategy.split(fill({4}, 1)));
            }).find("the replicas' values may differ"),
            std::string::npos);
}

TEST_F(Mirrored, ArgumentsThatDisagreeAreNamed) {
  const MirroredStrategy strategy;
  const auto sum = function([](const Tensor& a, const Tensor& b) { return a + b; });
  const auto message = error_of<InvalidArgument>([&] {
    strategy.run(sum, strategy.split(fill({4, 2}, 1)), strategy.split(fill({6, 2}, 1)));
  });
  EXPECT_NE(message.find("replica 0"), std::string::npos) << message;
  EXPECT_NE(message.find("2 and 3"), std::string::npos) << message;
}

TEST_F(Mirrored, AnExceptionInAReplicaIsNamedAndTheModelStaysAtTheLastWholeStep) {
  Training training;
  training.train();
  const auto weights = training.weights();
  op::set_instruction_hook([](int replica, const std::string& op) {
    if (replica == 1 && op == "softmax_cross_entropy") throw InvalidArgument("labels out of range");
  });
  const auto message = error_of<InvalidArgument>([&] { training.train(); });
  EXPECT_EQ(message, "replica 1 on /device:CPU:1: labels out of range");
  EXPECT_EQ(training.weights(), weights);
  op::set_instruction_hook({});
  EXPECT_NEAR(training.train(), undisturbed_second_loss(), 1e-12);
}

TEST_F(Mirrored, AReplicaStuckInItsInputIsNamedWithinTheDeadline) {
  const MirroredStrategy strategy;
  config::set_wait_deadline(200ms);
  const harness::Trap trap;
  const auto message = error_of<DeadlineExceeded>([&] {
    strategy.values_from_function([trap](const ValueContext& context) {
      if (context.replica_id_in_sync_group == 1) trap.enter();
      trap.wait_until_occupied();
      return Tensor(1.f);
    });
  });
  EXPECT_EQ(message,
            "replica 1 on /device:CPU:1 (last seen in its input) did not arrive within 0.2 s");
  const PerReplica values = strategy.values_from_function([](const ValueContext& context) {
    return Tensor(static_cast<float>(context.replica_id_in_sync_group));
  });
  EXPECT_FLOAT_EQ(values.value(1).item<float>(), 1);
  trap.open();
}

TEST_F(Mirrored, AnInputOfADeviceWithAQueueIsNamedToo) {
  devices::test::add_test_gpu();
  const MirroredStrategy strategy({"/CPU:0", "/GPU:0"});
  const auto failed = error_of<Unavailable>([&] {
    strategy.values_from_function([](const ValueContext& context) -> Tensor {
      if (context.replica_id_in_sync_group == 1) throw std::runtime_error("disk full");
      return Tensor(1.f);
    });
  });
  EXPECT_EQ(failed, "replica 1 on /device:GPU:0: disk full");

  config::set_wait_deadline(200ms);
  const harness::Trap trap;
  const auto stuck = error_of<DeadlineExceeded>([&] {
    strategy.values_from_function([trap](const ValueContext& context) {
      if (context.replica_id_in_sync_group == 1) trap.enter();
      trap.wait_until_occupied();
      return Tensor(1.f);
    });
  });
  EXPECT_EQ(stuck,
            "replica 1 on /device:GPU:0 (last seen in its input) did not arrive within 0.2 s");
  trap.open();
}

TEST_F(Mirrored, AnInputSignatureHoldsForReplicas) {
  const MirroredStrategy strategy;
  const auto twice = function([](const Tensor& x) { return x * 2.0; },
                              {.name = "twice", .input_signature = {{DType::float32, {-1, 2}}}});
  EXPECT_EQ(strategy.run(twice, strategy.split(fill({3, 2}, 1))).value(1).shape(), (Shape{1, 2}));
  const auto width = error_of<InvalidArgument>([&] {
    strategy.run(twice, strategy.split(fill({3, 4}, 1)));
  });
  EXPECT_EQ(width, "twice: argument 0 is float32[3,4], the input signature says float32[None,2]");
  const auto number = function([](const Tensor& x) { return x * 2.0; },
                               {.input_signature = {{DType::float32, {}}}});
  const PerReplica numbers = strategy.values_from_function([](const ValueContext& context) {
    return Tensor(static_cast<float>(context.replica_id_in_sync_group));
  });
  EXPECT_FLOAT_EQ(strategy.run(number, numbers).value(1).item<float>(), 2);
  const auto scaled = function([](const Tensor& x, const Tensor& by) { return x * by; });
  const PerReplica rows_by = strategy.run(scaled, strategy.split(fill({5, 2}, 3)), numbers);
  EXPECT_EQ(rows_by.value(1).to_vector<float>(), (std::vector<float>{3, 3, 3, 3}));
  const auto fixed = function([](const Tensor& x) { return x * 2.0; },
                              {.input_signature = {{DType::float32, {4, 2}}}});
  const auto rows = error_of<InvalidArgument>([&] {
    strategy.run(fixed, strategy.split(fill({4, 2}, 1)));
  });
  EXPECT_NE(rows.find("declare its leading size as -1"), std::string::npos) << rows;
}

TEST_F(Mirrored, AFunctionHasAnyNumberOfArguments) {
  const MirroredStrategy strategy;
  const FlatFunction wide([](const Tensors& x) { return Tensors{x[0] * 10.0, x[99] * 10.0}; });
  PerReplicas arguments(99, Tensor(1.f));
  arguments.push_back(strategy.split(fill({3, 2}, 2)));
  for (int call = 0; call < 2; ++call) {
    const PerReplicas results = strategy.run_flat(wide, arguments);
    EXPECT_EQ(results[0].value(1).item<float>(), 10);
    EXPECT_EQ(results[1].value(1).to_vector<float>(), (std::vector<float>{20, 20}));
  }
  EXPECT_EQ(wide.trace_count(), 1);
}

TEST_F(Mirrored, AnInputMayComputeButNotRunAStep) {
  const MirroredStrategy strategy;
  const PerReplica values = strategy.values_from_function([](const ValueContext&) {
    return reduce_sum(matmul(fill({200, 200}, 1), fill({200, 200}, 1)));  // Enough work to share.
  });
  EXPECT_FLOAT_EQ(values.value(1).item<float>(), 200 * 200 * 200);
  const auto twice = function([](const Tensor& x) { return x * 2.0; });
  const auto message = error_of<FailedPrecondition>([&] {
    strategy.values_from_function([&](const ValueContext&) { return twice(Tensor(1.f)); });
  });
  EXPECT_NE(message.find("within a step"), std::string::npos) << message;
}

TEST_F(Mirrored, RunInsideATracedFunctionIsRefused) {
  const MirroredStrategy strategy;
  const auto inner = function([](const Tensor& x) { return x * 2.0; });
  const auto outer = function([&](const Tensor& x) { return strategy.run(inner, x).value(0); });
  EXPECT_THROW(outer(Tensor(1.f)), FailedPrecondition);
  EXPECT_FLOAT_EQ(inner(Tensor(1.f)).item<float>(), 2);
}

TEST_F(Mirrored, AnExceptionInAnInputIsNamed) {
  const MirroredStrategy strategy;
  const auto message = error_of<Unavailable>([&] {
    strategy.values_from_function([](const ValueContext& context) -> Tensor {
      if (context.replica_id_in_sync_group == 1) throw std::runtime_error("disk full");
      return Tensor(1.f);
    });
  });
  EXPECT_EQ(message, "replica 1 on /device:CPU:1: disk full");
}

TEST_F(Mirrored, AReplicaThatNeverArrivesIsNamedAndTrainingGoesOn) {
  Training training;
  training.train();
  const auto weights = training.weights();
  config::set_wait_deadline(200ms);
  const harness::Trap trap;
  op::set_instruction_hook([trap](int replica, const std::string& op) {
    if (op != "softmax_cross_entropy") return;  // Up to there replicas do not meet.
    if (replica == 1) trap.enter();
    trap.wait_until_occupied();
  });
  const auto message = error_of<DeadlineExceeded>([&] { training.train(); });
  EXPECT_EQ(message,
            "replica 1 on /device:CPU:1 (last seen in softmax_cross_entropy) did not arrive within "
            "0.2 s");
  EXPECT_EQ(training.weights(), weights);
  op::set_instruction_hook({});
  config::set_wait_deadline(20s);
  EXPECT_NEAR(training.train(), undisturbed_second_loss(), 1e-12);
  trap.open();
  std::this_thread::sleep_for(20ms);
  EXPECT_GT(training.train(), 0);
}

TEST_F(Mirrored, AStuckTestDeviceIsNamed) {
  devices::reset_devices();
  devices::test::add_test_gpu({.stuck = true});
  config::set_wait_deadline(100ms);
  const auto message =
      error_of<DeadlineExceeded>([] { (fill({2}, 1) + fill({2}, 1)).to_vector<float>(); });
  EXPECT_EQ(message, "/device:GPU:0 did not finish its work within 0.1 s");
}

TEST_F(Mirrored, TwoStrategiesMayRunFromTwoThreadsAtOnce) {
  std::vector<std::thread> threads;
  std::vector<double> losses(2);
  for (size_t t = 0; t < losses.size(); ++t) {
    threads.emplace_back([&losses, t] {
      Training training;
      for (int i = 0; i < 50; ++i) losses[t] = training.train();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_DOUBLE_EQ(losses[0], losses[1]);
}

TEST_F(Mirrored, OneFunctionMayRunFromTwoThreadsAtOnce) {
  const auto square = function([](const Tensor& x) { return matmul(x, x); });
  const Tensor x = random_normal({64, 64});
  const auto wanted = matmul(x, x).to_vector<float>();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const auto values = square(x).to_vector<float>();
        for (size_t k = 0; k < values.size(); ++k) wrong += std::abs(values[k] - wanted[k]) > 1e-3f;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Mirrored, AFunctionOfAnotherStrategysVariablesIsRefusedAndStaysUsable) {
  const double second = undisturbed_second_loss();
  Training training;
  training.train();
  const MirroredStrategy other({"/CPU:1", "/CPU:0"});
  const std::string error = error_of<FailedPrecondition>([&] {
    other.run(training.step, other.split(harness::features<double>(64)),
              other.split(harness::labels<double>(64)));
  });
  for (const char* part :
       {"on /device:CPU:1, /device:CPU:0", "its variable '", "0' float64[",
        "was created in another strategy's scope, on /device:CPU:0, /device:CPU:1", "create it"}) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
  }
  EXPECT_DOUBLE_EQ(training.train(), second);
}

}  // namespace
}  // namespace tandem::distribute
