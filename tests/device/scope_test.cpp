#include "device/scope.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "harness/throws.h"
#include "tandem/device.h"
#include "tandem/error.h"
#include "tandem/log.h"

namespace tandem {
namespace {

using harness::throws;

/// Scopes need no device to exist until an operation is placed.
class DeviceScopeTest : public testing::Test {
 protected:
  void SetUp() override {
    former_ = logging::set_sink([this](logging::Level level, std::string_view message) {
      if (level == logging::Level::error) errors_.emplace_back(message);
    });
  }
  void TearDown() override { logging::set_sink(former_); }

  static std::string current() { return current_device_scope().str(); }
  static std::unique_ptr<DeviceScope> open(std::string_view name) {
    return std::unique_ptr<DeviceScope>(new DeviceScope(device(name)));
  }

  std::vector<std::string> errors_;

 private:
  logging::Sink former_;
};

TEST_F(DeviceScopeTest, OutsideOfAnyScopeNothingIsAskedFor) {
  EXPECT_EQ(current_device_scope(), DeviceSpec());
}

TEST_F(DeviceScopeTest, WhatAnInnerScopeLeavesOpenIsTakenFromTheOuter) {
  {
    const auto job = device("/job:worker/task:1");
    EXPECT_EQ(current(), "/job:worker/task:1");
    {
      const auto gpu = device("/gpu:1");
      EXPECT_EQ(current(), "/job:worker/task:1/device:GPU:1");
      {
        const auto cpu = device("cpu");
        EXPECT_EQ(current(), "/job:worker/task:1/device:CPU:1");
      }
      EXPECT_EQ(current(), "/job:worker/task:1/device:GPU:1");
    }
    EXPECT_EQ(current(), "/job:worker/task:1");
  }
  EXPECT_EQ(current(), "");
  EXPECT_TRUE(errors_.empty());
}

TEST_F(DeviceScopeTest, InANullScopeNoOuterOneCounts) {
  const auto gpu = device("/job:worker/gpu:1");
  {
    const auto none = device(nullptr);
    EXPECT_EQ(current(), "");
    const auto cpu = device("/cpu:0");
    EXPECT_EQ(current(), "/device:CPU:0");
  }
  EXPECT_EQ(current(), "/job:worker/device:GPU:1");
}

TEST_F(DeviceScopeTest, AMalformedNameOpensNoScope) {
  const auto gpu = device("/gpu:1");
  EXPECT_TRUE(throws<InvalidArgument>([] { const auto bad = device("/gpu:x"); }, {"'/gpu:x'"}));
  EXPECT_EQ(current(), "/device:GPU:1");
}

TEST_F(DeviceScopeTest, AScopeLeftOutOfOrderIsAnErrorOfTheNextUseThatNamesBoth) {
  const std::vector<std::function<void()>> uses{
      [] { current_device_scope(); }, [] { const auto scope = device("/cpu:0"); },
      [] { const auto scope = device(nullptr); }, [] { devices::scope_device(); }};
  for (const auto& use : uses) {
    errors_.clear();
    auto outer = open("/job:worker");
    auto inner = open("/gpu:1");
    outer.reset();
    ASSERT_EQ(errors_.size(), 1u);
    EXPECT_TRUE(throws<FailedPrecondition>(
        use, {"'/job:worker' was left before '/job:worker/device:GPU:1'", "reverse order"}));
    EXPECT_EQ(current(), "/job:worker/device:GPU:1");
    inner.reset();
    EXPECT_EQ(current(), "");
    EXPECT_EQ(errors_.size(), 1u);
  }
}

TEST_F(DeviceScopeTest, AScopeLeftOutOfOrderIsAnErrorAlsoWhenNoneIsOpenAnyMore) {
  auto outer = open("/gpu:0");
  auto inner = open("/gpu:1");
  outer.reset();
  inner.reset();
  EXPECT_TRUE(throws<FailedPrecondition>([] { devices::scope_device(); }, {"'/device:GPU:0'"}));
  EXPECT_EQ(devices::scope_device(), nullptr);
}

TEST_F(DeviceScopeTest, AScopeLeftOnAnotherThreadIsAnErrorOfThatThreadsNextUse) {
  std::unique_ptr<DeviceScope> scope;
  std::thread([&] { scope = open("/gpu:1"); }).join();
  scope.reset();
  ASSERT_EQ(errors_.size(), 1u);
  EXPECT_TRUE(throws<FailedPrecondition>([] { current(); }, {"another thread"}));
  EXPECT_EQ(current(), "");
}

TEST_F(DeviceScopeTest, EachThreadHasItsOwnScopes) {
  const auto mine = device("/gpu:1");
  std::string before;
  std::string within;
  std::thread([&] {
    before = current();
    const auto theirs = device("/cpu:0");
    within = current();
  }).join();
  EXPECT_EQ(before, "");
  EXPECT_EQ(within, "/device:CPU:0");
  EXPECT_EQ(current(), "/device:GPU:1");
}

}  // namespace
}  // namespace tandem
