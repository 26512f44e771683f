/// `fit`, `evaluate` and `predict` under a strategy: what they report, and what happens when a
/// replica fails. That the result is the same is tests/checks.
#include <gtest/gtest.h>

#include <atomic>
#include <sstream>
#include <thread>

#include "execution/execution.h"
#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/distribute.h"
#include "tandem/keras/layers.h"
#include "tandem/keras/model.h"
#include "tandem/ops.h"

namespace tandem::keras {
namespace {

using namespace std::chrono_literals;
using distribute::MirroredStrategy;
using harness::throws;
using layers::Dense;

class FitStrategyTest : public harness::FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    config::set_logical_cpus({{.threads = 1}, {.threads = 1}, {.threads = 1}});
    x_ = random_uniform({100, 4}, -1, 1, {.seed = 1});
    y_ = matmul(x_, Tensor::from<float>({1, -2, 3, 0.5}, {4, 1}));
  }
  void TearDown() override {
    op::set_instruction_hook({});
    FreshDevices::TearDown();
  }

  static Sequential compiled(const distribute::Strategy& strategy) {
    const auto scope = strategy.scope();
    const Sequential model({Dense(3, {.activation = "tanh"}), Dense(1)});
    model.compile({.optimizer = optimizers::Adam(0.01), .loss = "mse", .metrics = {"mae"}});
    return model;
  }
  static FitOptions quiet(int64_t batch = 32) {
    return {.batch_size = batch, .verbose = Verbose::silent, .shuffle = false};
  }

  Tensor x_, y_;
};

TEST_F(FitStrategyTest, FitsOutsideOfTheScopeWithWeightsOfTheStrategy) {
  const MirroredStrategy strategy;
  const Sequential model = compiled(strategy);
  const History history = model.fit(x_, y_, quiet());
  EXPECT_EQ(history.samples_seen, 100);
  EXPECT_EQ(model.weights().size(), 4u);
  EXPECT_NO_THROW(model.fit(x_, y_, quiet(2)));  // Fewer rows than replicas.
}

TEST_F(FitStrategyTest, PredictReturnsRowsInOrderAndEvaluateCountsEachOnce) {
  const Sequential model = compiled(MirroredStrategy());
  const Tensor all = model.predict(x_, {.batch_size = 100});
  EXPECT_EQ(model.predict(x_, {.batch_size = 7}).to_vector<float>(), all.to_vector<float>());
  const double mae = reduce_mean(abs(all - y_)).item<float>();
  for (int64_t batch : {100, 32, 2}) {
    const Logs logs = model.evaluate(x_, y_, {.batch_size = batch, .verbose = Verbose::silent});
    EXPECT_NEAR(logs.at("mae"), mae, 1e-6) << batch;
  }
}

TEST_F(FitStrategyTest, TellsWhereTheTimeOfEachReplicaWent) {
  const Sequential model = compiled(MirroredStrategy({"/CPU:0", "/CPU:1"}));
  std::ostringstream out;
  model.fit(x_, y_, {.batch_size = 2, .epochs = 2, .verbose = Verbose::line, .output = &out});
  const std::string text = out.str();
  for (const char* part :
       {"samples seen: 200\n", "time per step: input ", "replica 0 on /device:CPU:0: compute ",
        "replica 1 on /device:CPU:1: compute ", "slowest: replica "}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST_F(FitStrategyTest, AReplicaThatFailsIsNamedAndTheModelStaysAtTheLastWholeStep) {
  const Sequential model = compiled(MirroredStrategy());
  model.fit(x_, y_, quiet());
  const auto weights = [&] { return model.get_weights()[0].to_vector<float>(); };
  std::vector<float> before = weights();
  int64_t step = 0;
  const auto each = callbacks::LambdaCallback({.on_batch_begin = [&](TrainingRun&, int64_t number) {
    step = number;
    before = weights();
  }});
  op::set_instruction_hook([&](int replica, const std::string& op) {
    if (step == 2 && replica == 1 && op.find("matmul") != std::string::npos) {
      throw ResourceExhausted("out of memory");
    }
  });
  FitOptions options = quiet();
  options.callbacks = {each};
  EXPECT_TRUE(throws<ResourceExhausted>([&] { model.fit(x_, y_, options); },
                                        {"replica 1 on /device:CPU:1", "out of memory"}));
  EXPECT_EQ(step, 2);
  EXPECT_EQ(weights(), before);
  op::set_instruction_hook({});
  EXPECT_EQ(model.fit(x_, y_, quiet()).samples_seen, 100);
}

TEST_F(FitStrategyTest, AnInputThatFailsIsNamedAndTheModelStaysUsable) {
  const Sequential model = compiled(MirroredStrategy());
  const auto batches = data::Dataset::from_tensor_slices(x_, y_)
                           .map([](const Tensor& x, const Tensor& y) {
                             if (x.to_vector<float>().empty()) throw InvalidArgument("no pixels");
                             return std::pair(x, y);
                           })
                           .batch(20);
  EXPECT_EQ(model.fit(batches, quiet()).samples_seen, 100);
  int64_t count = 0;
  const auto broken = data::Dataset::from_tensor_slices(x_, y_)
                          .map([&](const Tensor& x, const Tensor& y) {
                            if (++count == 50) throw DataLoss("file 7 is cut short");
                            return std::pair(x, y);
                          })
                          .batch(20);
  EXPECT_TRUE(throws<DataLoss>([&] { model.fit(broken, quiet()); }, {"map", "file 7"}));
  EXPECT_EQ(model.fit(x_, y_, quiet()).samples_seen, 100);
}

TEST_F(FitStrategyTest, AnInputThatNeverComesIsNamedWithinTheDeadline) {
  const Sequential model = compiled(MirroredStrategy());
  model.fit(x_, y_, quiet());
  auto release = std::make_shared<std::atomic<bool>>(false);
  auto count = std::make_shared<std::atomic<int>>(0);
  const auto stuck = data::Dataset::from_tensor_slices(x_, y_)
                         .map([release, count](const Tensor& x, const Tensor& y) {
                           while (++*count > 50 && !*release) std::this_thread::sleep_for(1ms);
                           return std::pair(x, y);
                         })
                         .batch(20);
  config::set_wait_deadline(200ms);
  EXPECT_TRUE(throws<DeadlineExceeded>([&] { model.fit(stuck, quiet()); },
                                       {"input: element 2 was not ready", "map"}));
  *release = true;
  config::set_wait_deadline(120s);
  EXPECT_EQ(model.fit(x_, y_, quiet()).samples_seen, 100);
}

TEST_F(FitStrategyTest, AnOptimizerOfNoStrategyIsAClearError) {
  const MirroredStrategy strategy;
  const optimizers::Adam outside(0.01);
  const auto scope = strategy.scope();
  const Sequential model({Dense(1)});
  model.compile({.optimizer = outside, .loss = "mse"});
  EXPECT_TRUE(throws<FailedPrecondition>([&] { model.fit(x_, y_, quiet()); },
                                         {"outside of any strategy's scope", "create it"}));
}

TEST_F(FitStrategyTest, RunEagerlyIsForOneReplica) {
  const MirroredStrategy strategy;
  const auto scope = strategy.scope();
  const Sequential model({Dense(1)});
  EXPECT_TRUE(throws<InvalidArgument>([&] { model.compile({.loss = "mse", .run_eagerly = true}); },
                                      {"run_eagerly", "3 replicas of MirroredStrategy"}));
}

TEST_F(FitStrategyTest, AModelOfOneStrategyIsNotCompiledInAnother) {
  const MirroredStrategy one;
  const Sequential model = compiled(one);
  const MirroredStrategy other;
  const auto scope = other.scope();
  EXPECT_TRUE(throws<FailedPrecondition>([&] { model.compile({.loss = "mse"}); },
                                         {"one program uses one strategy"}));
}

}  // namespace
}  // namespace tandem::keras
