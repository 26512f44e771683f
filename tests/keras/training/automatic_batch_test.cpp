// A batch size that fit finds by itself, on any device: the largest power of two that the memory
// limits allow.
#include <gtest/gtest.h>

#include <regex>

#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/config.h"
#include "tandem/distribute.h"
#include "tandem/keras/layers.h"
#include "tandem/keras/model.h"
#include "tandem/log.h"
#include "tandem/ops.h"

namespace tandem::keras {
namespace {

using harness::throws;
using layers::Dense;

constexpr int64_t kRows = 3000;
constexpr size_t kMegabyte = 1 << 20;

class AutomaticBatchTest : public harness::FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    logging::set_sink([this](logging::Level, std::string_view message) { log_ += message; });
  }
  void TearDown() override {
    logging::set_sink({});
    FreshDevices::TearDown();
  }

  static Sequential model(bool run_eagerly = false) {
    Sequential model({Dense(64, {.activation = "relu", .input_shape = {16}}), Dense(1)});
    model.compile({.optimizer = optimizers::Adam(0.01), .loss = "mse", .run_eagerly = run_eagerly});
    return model;
  }

  static FitOptions options() { return {.batch_size = automatic, .verbose = Verbose::silent}; }

  static void fit(const Model& model, const FitOptions& options) {
    const auto scope = device("/CPU:0");
    model.fit(fill({kRows, 16}, 0.5f, DType::float32), fill({kRows, 1}, 1.0f, DType::float32),
              options);
  }

  /// The size that fit has told of, since the last call.
  int64_t told() {
    std::smatch found;
    const std::string log = std::exchange(log_, {});
    if (!std::regex_search(log, found, std::regex("automatic: ([0-9]+) of 3000 rows"))) return 0;
    return std::stoll(found[1]);
  }

  /// The size for a test device with so much memory.
  int64_t size_with(size_t memory) {
    restart();
    config::add_test_device({.memory = memory});
    fit(model(), options());
    EXPECT_LE(config::get_memory_info("GPU:0").peak, memory);
    return told();
  }

  std::string log_;
};

TEST_F(AutomaticBatchTest, IsTheLargestPowerOfTwoThatFits) {
  const int64_t small = size_with(kMegabyte);
  EXPECT_GT(small, 16);
  EXPECT_LT(small, 2048);
  EXPECT_EQ(size_with(2 * kMegabyte), 2 * small);
  EXPECT_EQ(size_with(64 * kMegabyte), 2048) << "there are no more rows";
}

TEST_F(AutomaticBatchTest, CountsTheRowsOfAllReplicas) {
  const int64_t alone = size_with(kMegabyte);
  restart();
  for (int i = 0; i < 2; ++i) config::add_test_device({.memory = kMegabyte});
  const distribute::MirroredStrategy strategy({"/GPU:0", "/GPU:1"});
  const auto scope = strategy.scope();
  fit(model(), options());
  const int64_t together = told();
  EXPECT_GE(together, alone);
  EXPECT_LE(together, 2 * alone);
  for (const char* name : {"GPU:0", "GPU:1"}) {
    EXPECT_LE(config::get_memory_info(name).peak, kMegabyte);
  }
}

TEST_F(AutomaticBatchTest, OnTheCpuIsAllRowsWhereThereIsNoLimit) {
  fit(model(), options());
  EXPECT_EQ(told(), 2048);
}

TEST_F(AutomaticBatchTest, RefusesWhatDecidesOtherwise) {
  const Sequential own = model();
  FitOptions steps = options();
  steps.steps_per_epoch = 3;
  EXPECT_TRUE(throws<InvalidArgument>([&] { fit(own, steps); }, {"steps_per_epoch"}));
  EXPECT_TRUE(
      throws<InvalidArgument>([&] { fit(model(true), options()); }, {"automatic", "eagerly"}));
  const auto batches =
      data::Dataset::from_tensor_slices(Tensors{fill({8, 16}, 0.5), fill({8, 1}, 1.0)}).batch(4);
  EXPECT_TRUE(throws<InvalidArgument>([&] { own.fit(batches, options()); },
                                      {"batch_size automatic goes with arrays"}));
}

TEST_F(AutomaticBatchTest, OfLessThanARowIsAnErrorWithThePlan) {
  config::add_test_device({.memory = 20'000});
  EXPECT_TRUE(throws<ResourceExhausted>([&] { fit(model(), options()); }, {}));
}

}  // namespace
}  // namespace tandem::keras
