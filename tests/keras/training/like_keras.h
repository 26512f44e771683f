/// Trainings on one device and on two replicas, beside what Keras gave for the same calls: the
/// numbers in these tests are those of Keras 3.15.1 on TensorFlow 2.21, printed with six digits.
/// Where Keras on two replicas fails or counts a loss twice, the numbers are those of one device.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "harness/fresh_devices.h"
#include "tandem/distribute.h"
#include "tandem/keras/layers.h"
#include "tandem/keras/model.h"
#include "tandem/log.h"
#include "tandem/ops.h"

namespace tandem::keras {

/// The parameter is the number of replicas. Tests run in the strategy's scope.
class LikeKeras : public harness::FreshDevices, public testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
    if (GetParam() > 1) {
      strategy_.emplace(std::vector<std::string>{"/CPU:0", "/CPU:1"});
      scope_.reset(new Scope(strategy_->scope()));
    }
    former_ = logging::set_sink([this](logging::Level level, std::string_view message) {
      if (level == logging::Level::warning) warnings_.emplace_back(message);
    });
  }
  void TearDown() override {
    logging::set_sink(former_);
    scope_.reset();
    strategy_.reset();
    FreshDevices::TearDown();
  }

  /// x times 1, or with a bias of 0, which training changes at this rate.
  static Sequential linear(const CompileOptions& options, bool use_bias = true) {
    const Sequential model({layers::Dense(
        1, {.use_bias = use_bias, .kernel_initializer = "ones", .input_shape = {1}})});
    model.compile(options);
    return model;
  }

  static FitOptions quiet(int epochs, std::optional<int64_t> batch_size = {}) {
    return {
        .batch_size = batch_size, .epochs = epochs, .verbose = Verbose::silent, .shuffle = false};
  }

  static void expect_near(const std::vector<double>& got, const std::vector<double>& wanted,
                          const std::string& what) {
    ASSERT_EQ(got.size(), wanted.size()) << what;
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], wanted[i], 2e-6 * std::max(1.0, wanted[i])) << what << " " << i;
    }
  }

  using Values = std::map<std::string, std::vector<double>>;
  /// All of them, and no others.
  static void expect_history(const History& got, const Values& wanted, const std::string& what) {
    EXPECT_EQ(got.history.size(), wanted.size()) << what;
    for (const auto& [name, values] : wanted) {
      ASSERT_TRUE(got.history.contains(name)) << what << " " << name;
      expect_near(got.history.at(name), values, what + " " + name);
    }
  }
  static void expect_logs(const Logs& got, const Logs& wanted, const std::string& what) {
    EXPECT_EQ(got.size(), wanted.size()) << what;
    for (const auto& [name, value] : wanted) {
      ASSERT_TRUE(got.contains(name)) << what << " " << name;
      EXPECT_NEAR(got.at(name), value, 2e-6) << what << " " << name;
    }
  }

  /// Warnings with this text in them.
  int64_t warned_of(const std::string& text) const {
    return std::ranges::count_if(
        warnings_, [&](const std::string& one) { return one.find(text) != std::string::npos; });
  }

  std::vector<std::string> warnings_;

 private:
  using Scope = decltype(std::declval<const distribute::MirroredStrategy&>().scope());
  std::optional<distribute::MirroredStrategy> strategy_;
  std::unique_ptr<Scope> scope_;
  logging::Sink former_;
};

inline std::string replicas_name(const testing::TestParamInfo<int>& info) {
  return info.param == 1 ? "OneDevice" : "TwoReplicas";
}

}  // namespace tandem::keras
