// Training and waits end when somebody asks for it, at a whole step.
#include "tandem/interruption.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "device/test/test_device.h"
#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/tandem.h"

namespace tandem::keras {
namespace {

using namespace std::chrono_literals;
using harness::throws;

class InterruptionTest : public harness::FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    x_ = random_uniform({64, 4}, -1, 1, {.seed = 1});
    y_ = reduce_sum(x_, {.axes = {1}, .keepdims = true});
    model_.compile({.optimizer = optimizers::SGD(0.01), .loss = "mse"});
  }
  void TearDown() override {
    interruption::set_question({});
    FreshDevices::TearDown();
  }

  Tensor x_, y_;
  Sequential model_{{layers::Dense(1, {.input_shape = {4}})}};
};

TEST_F(InterruptionTest, FitEndsAfterAWholeStepAndTheModelGoesOn) {
  int64_t begun = 0;
  int64_t ended = 0;
  const callbacks::LambdaCallback ask({.on_batch_begin =
                                           [&](TrainingRun&, int64_t) {
                                             if (++begun == 3) interruption::request();
                                           },
                                       .on_batch_end = [&](TrainingRun&, int64_t) { ++ended; }});
  const FitOptions options{
      .batch_size = 8, .epochs = 1 << 30, .verbose = Verbose::silent, .callbacks = {ask}};
  EXPECT_THROW(model_.fit(x_, y_, options), Interrupted);
  EXPECT_EQ(begun, ended);
  EXPECT_GE(ended, 3);
  EXPECT_EQ(model_.fit(x_, y_, {.verbose = Verbose::silent}).epoch.size(), 1u);
}

TEST_F(InterruptionTest, ASignalHandlerMayAsk) {
  const auto former = std::signal(SIGUSR2, [](int) { interruption::request(); });
  std::thread other([] {
    std::this_thread::sleep_for(50ms);
    std::raise(SIGUSR2);
  });
  EXPECT_THROW(model_.fit(x_, y_, {.epochs = 1 << 30, .verbose = Verbose::silent}), Interrupted);
  other.join();
  std::signal(SIGUSR2, former);
}

TEST_F(InterruptionTest, EvaluateAndPredictLook) {
  interruption::request();
  EXPECT_THROW(model_.evaluate(x_, y_, {.verbose = Verbose::silent}), Interrupted);
  interruption::request();
  EXPECT_THROW(model_.predict(x_), Interrupted);
  EXPECT_NO_THROW(model_.predict(x_));  // One request ends one call.
}

/// Its first element comes at once, its second when somebody lets it.
struct SlowSource {
  std::atomic<bool> is_stuck{false};
  std::atomic<bool> goes_on{false};
  int calls = 0;

  std::optional<data::Element> next() {
    if (calls++ == 0) return data::Element{Tensor(1.0f)};
    is_stuck = true;
    while (!goes_on) std::this_thread::sleep_for(1ms);
    return std::nullopt;
  }
};

TEST_F(InterruptionTest, AWaitForDataEndsAndDoesNotWaitForTheirSource) {
  const auto source = std::make_shared<SlowSource>();
  const auto elements =
      data::Dataset::from_generator([source] { return [source] { return source->next(); }; });
  {
    auto iterator = elements.prefetch(2).iterator();
    iterator.next();
    while (!source->is_stuck) std::this_thread::sleep_for(1ms);  // In the background.
    interruption::request();
    EXPECT_THROW(iterator.next(), Interrupted);
  }
  EXPECT_FALSE(source->goes_on);
  source->goes_on = true;
}

class InterruptedDeviceTest : public harness::FreshDevices {};

TEST_F(InterruptedDeviceTest, AWaitForItEnds) {
  devices::test::add_test_gpu({.stuck = true});
  const auto scope = device("/GPU:0");
  const Tensor y = ones({2}) + 1.0;
  std::thread other([] {
    std::this_thread::sleep_for(100ms);
    interruption::request();
  });
  EXPECT_THROW(y.to_vector<float>(), Interrupted);
  other.join();
}

TEST_F(InterruptionTest, WhatAQuestionThrowsComesOut) {
  struct Asked : std::exception {};
  int asked = 0;
  interruption::set_question([&] {
    if (++asked == 2) throw Asked();
  });
  EXPECT_THROW(model_.fit(x_, y_, {.epochs = 1 << 30, .verbose = Verbose::silent}), Asked);
  EXPECT_EQ(asked, 2);
  interruption::set_question({});
  EXPECT_NO_THROW(interruption::look());
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace tandem::keras
