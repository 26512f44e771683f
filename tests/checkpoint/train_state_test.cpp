#include "tandem/checkpoint/train_state.h"

#include <gtest/gtest.h>

#include <fstream>

#include "harness/classifier.h"
#include "harness/fresh_devices.h"
#include "harness/opencl.h"
#include "harness/temp_folder.h"
#include "harness/throws.h"
#include "runtime/random_calls.h"
#include "tandem/tandem.h"

namespace tandem::train {
namespace {

using harness::throws;

class TrainStateTest : public harness::FreshDevices {
 protected:
  void TearDown() override {
    runtime::forget_global_seed();
    FreshDevices::TearDown();
  }

  harness::TempFolder folder_;
};

TEST_F(TrainStateTest, StepEpochAndPartsComeBack) {
  const Variable weights(zeros({2}));
  const TrainState state({{"weights", weights}});
  const Checkpoint checkpoint(state);
  state.set_step(7);
  state.set_epoch(2);
  checkpoint.write(folder_ / "c");
  state.set_step(0);
  state.set_epoch(0);
  checkpoint.restore(folder_ / "c").assert_consumed();
  EXPECT_EQ(state.step(), 7);
  EXPECT_EQ(state.epoch(), 2);
  EXPECT_EQ(
      load_checkpoint(folder_ / "c").tensor("step/.ATTRIBUTES/VARIABLE_VALUE").item<int64_t>(), 7);
}

/// The losses of some steps.
template <class Step>
std::vector<float> train(const distribute::Strategy& strategy, const Step& step, int steps) {
  std::vector<float> losses;
  const auto x = strategy.split(harness::features<float>(12, 6));
  const auto y = strategy.split(harness::labels<float>(12));
  for (int i = 0; i < steps; ++i) {
    const auto loss = strategy.run(step, x, y);
    losses.push_back(strategy.reduce(distribute::ReduceOp::sum, loss).template item<float>());
  }
  return losses;
}

TEST_F(TrainStateTest, ModelsOnGpusGoOnWhereTheyWereThereAndElsewhere) {
  harness::use_opencl();
  std::vector<std::vector<float>> weights;
  std::vector<float> wanted;
  {
    const distribute::MirroredStrategy strategy({"/GPU:0", "/GPU:1"});
    const auto scope = strategy.scope();
    const harness::Classifier<float> model({6, 20, 10});
    const auto step = model.compiled_step();
    const TrainState state({{"optimizer", model.optimizer},
                            {"kernel", model.variables[0]},
                            {"bias", model.variables[1]},
                            {"last kernel", model.variables[2]},
                            {"last bias", model.variables[3]}});
    const Checkpoint checkpoint(state);
    train(strategy, step, 5);
    state.set_step(5);
    checkpoint.write(folder_ / "c");
    for (const Variable& v : model.variables) weights.push_back(v.value().to_vector<float>());
    wanted = train(strategy, step, 3);
    state.set_step(8);
    checkpoint.restore(folder_ / "c").assert_consumed();
    EXPECT_EQ(state.step(), 5);
    EXPECT_EQ(train(strategy, step, 3), wanted);
  }
  const auto scope = device("/CPU:0");
  const harness::Classifier<float> model({6, 20, 10});
  const TrainState state({{"optimizer", model.optimizer},
                          {"kernel", model.variables[0]},
                          {"bias", model.variables[1]},
                          {"last kernel", model.variables[2]},
                          {"last bias", model.variables[3]}});
  Checkpoint(state).restore(folder_ / "c");
  EXPECT_EQ(state.step(), 5);
  for (size_t i = 0; i < weights.size(); ++i) {
    EXPECT_EQ(model.variables[i].value().to_vector<float>(), weights[i]);
  }
}

std::vector<float> initial_values() {
  const InitScope scope = init_scope();
  return random_normal({3}).to_vector<float>();
}

TEST_F(TrainStateTest, RandomNumbersGoOnWhereTheyWereWithAndWithoutASeed) {
  const Checkpoint checkpoint{TrainState({})};
  for (const bool seeded : {false, true}) {
    if (seeded) random::set_seed(5);
    random_normal({3});
    checkpoint.write(folder_ / "c");
    const auto next = random_normal({3}).to_vector<float>();
    const auto initial = initial_values();
    random::set_seed(99);
    random_normal({3});
    checkpoint.restore(folder_ / "c");
    EXPECT_EQ(random_normal({3}).to_vector<float>(), next) << seeded;
    EXPECT_EQ(initial_values(), initial) << seeded;
  }
}

TEST_F(TrainStateTest, RandomStateWithoutASequenceOfInitialValuesIsRead) {
  const Checkpoint written(
      {{"random", HostState<std::string>{.save = [] { return "calls 3 seed 5 process_seed 4"; },
                                         .restore = [](const std::string&) {}}}});
  written.write(folder_ / "c");
  Checkpoint(TrainState({})).restore(folder_ / "c");
  EXPECT_EQ(runtime::random_state(),
            (runtime::RandomState{.calls = 3, .seed = 5, .process_seed = 4}));
}

TEST_F(TrainStateTest, RandomStateOfAnotherFormIsRefused) {
  const auto before = runtime::random_state();
  const Checkpoint written(
      {{"random", HostState<std::string>{.save = [] { return "calls 3 seed x process_seed 4"; },
                                         .restore = [](const std::string&) {}}}});
  written.write(folder_ / "c");
  EXPECT_TRUE(throws<DataLoss>([&] { Checkpoint(TrainState({})).restore(folder_ / "c"); },
                               {"random state", "seed x"}));
  EXPECT_EQ(runtime::random_state(), before);
}

TEST_F(TrainStateTest, AnotherProviderTableIsWarnedOf) {
  const Checkpoint checkpoint{TrainState({})};
  checkpoint.write(folder_ / "c");
  std::ofstream(folder_ / "table") << "tandem providers 1\ngemm float32 N N - 6 6 6 openblas\n";
  std::vector<std::string> warnings;
  const auto former = logging::set_sink(
      [&](logging::Level, std::string_view message) { warnings.emplace_back(message); });
  checkpoint.restore(folder_ / "c");
  EXPECT_TRUE(warnings.empty());
  providers::use_table(folder_ / "table");
  checkpoint.restore(folder_ / "c");
  providers::use_table("");
  logging::set_sink(former);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("saved under the static provider table, this process uses provider "
                             "table "),
            std::string::npos)
      << warnings[0];
}

TEST_F(TrainStateTest, ItsOwnNamesAreTaken) {
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        TrainState({{"step", Variable(Tensor(1.f))}});
      },
      {"'step'"}));
}

}  // namespace
}  // namespace tandem::train
