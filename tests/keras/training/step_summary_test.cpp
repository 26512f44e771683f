#include "keras/training/step_summary.h"

#include <gtest/gtest.h>

#include <thread>

#include "harness/fresh_devices.h"
#include "harness/opencl.h"
#include "tandem/tandem.h"

namespace tandem::keras {
namespace {

using StepSummaryTest = harness::FreshDevices;

TEST_F(StepSummaryTest, SaysHowLongADeviceWasIdleAndWhy) {
  harness::use_opencl();
  const distribute::OneDeviceStrategy strategy("/GPU:0");
  const auto scope = strategy.scope();
  const auto f = function([](const Tensor& x) { return reduce_sum(x * 2.0); });
  const Tensor x = fill({64, 10}, 1.0);
  StepSummary summary(strategy);
  EXPECT_EQ(summary.str(), "");
  for (int i = 0; i < 60; ++i) {
    summary.run(64, [&] {
      f(x).item<float>();
      if (i == 50) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      f(x);
    });
  }
  const std::string text = summary.str();
  EXPECT_NE(text.find("/device:GPU:0 was idle "), std::string::npos) << text;
  EXPECT_NE(text.find("of that waiting for the host"), std::string::npos) << text;
}

}  // namespace
}  // namespace tandem::keras
