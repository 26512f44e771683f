#include "tandem/device/placement.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "op/apply.h"
#include "op/registry.h"
#include "tandem/device.h"
#include "tandem/log.h"
#include "tandem/ops.h"
#include "tandem/variable.h"

namespace tandem {
namespace {

using harness::throws;
using Floats = std::vector<float>;
using Lines = std::vector<std::string>;

/// Catches what is logged.
class PlacementTest : public harness::FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    former_ = logging::set_sink([this](logging::Level level, std::string_view message) {
      (level == logging::Level::warning ? warnings_ : lines_).emplace_back(message);
    });
  }
  void TearDown() override {
    logging::set_sink(former_);
    FreshDevices::TearDown();
  }

  static Tensor pair() { return Tensor::from<float>({1, 2}, {2}); }
  static Tensor integers() { return Tensor::from<int32_t>({1, 2}, {2}); }

  Lines lines_;
  Lines warnings_;

 private:
  logging::Sink former_;
};

TEST_F(PlacementTest, AnUnknownDeviceNamesTheOpTheRequestAndTheDevices) {
  config::add_test_device();
  const Variable made_before(pair());
  const auto scope = device("/gpu:3");
  EXPECT_TRUE(throws<NotFound>([&] { made_before.value(); },
                               {"read_variable(): ", "'/device:GPU:3' does not exist"}));
  EXPECT_TRUE(throws<NotFound>([] { relu(pair()); },
                               {"relu(float32[2]): ", "'/device:GPU:3' does not exist",
                                "the devices are /device:GPU:0, /device:CPU:0"}));
  EXPECT_TRUE(throws<NotFound>([] { Variable(pair(), {.name = "w"}); },
                               {"variable 'w' float32[2]: ", "'/device:GPU:3'"}));
}

TEST_F(PlacementTest, AMissingKernelNamesTheOpTheRequestTheKernelsAndTheDevices) {
  config::add_test_device({.missing_kernels = {"relu"}});
  const auto scope = device("/job:localhost/gpu:0");
  EXPECT_TRUE(throws<NotFound>([] { relu(pair()); },
                               {"relu(float32[2]): no kernel on /device:GPU:0 (backend test)",
                                "asked for by the scope '/job:localhost/device:GPU:0'",
                                "kernels exist for cpu float32, cpu float64",
                                "the devices are /device:GPU:0, /device:CPU:0"}));
}

TEST_F(PlacementTest, AKernelMayBeMissingForOneDtypeOnly) {
  config::add_test_device({.missing_kernels = {"add int32"}});
  EXPECT_EQ((pair() + pair()).device(), "/device:GPU:0");
  EXPECT_EQ((integers() + integers()).device(), "/device:CPU:0");
  EXPECT_EQ((integers() - integers()).device(), "/device:GPU:0");
}

TEST_F(PlacementTest, VariablesOnAGpuAreOfFloatTypesOrCounters) {
  config::add_test_device();
  const auto scope = device("/gpu:0");
  EXPECT_EQ(Variable(pair()).value().device(), "/device:GPU:0");
  EXPECT_EQ(Variable(Tensor(int64_t{0})).value().device(), "/device:GPU:0");
  EXPECT_TRUE(throws<NotFound>([] { Variable(integers(), {.name = "a_gpu"}); },
                               {"variable 'a_gpu' int32[2]: no kernel on /device:GPU:0",
                                "asked for by the scope '/device:GPU:0'", "cpu int32"}));
}

TEST_F(PlacementTest, UnlessToldOtherwiseVariablesAreWhereTheyCanBe) {
  config::add_test_device();
  EXPECT_EQ(Variable(pair()).value().device(), "/device:GPU:0");
  EXPECT_EQ(Variable(integers()).value().device(), "/device:CPU:0");
}

TEST_F(PlacementTest, WithSoftPlacementTheCpuStandsInForADeviceThatDoesNotExist) {
  config::set_soft_device_placement(true);
  const auto scope = device("/gpu:0");
  const Tensor result = relu(pair());
  EXPECT_EQ(result.device(), "/device:CPU:0");
  EXPECT_EQ(result.to_vector<float>(), (Floats{1, 2}));
  EXPECT_EQ(Variable(pair()).value().device(), "/device:CPU:0");
  EXPECT_EQ(placement_report()[0], (Placement{"relu(float32[2])", "/device:GPU:0", "/device:CPU:0",
                                              "/device:GPU:0 does not exist"}));
}

TEST_F(PlacementTest, WithSoftPlacementTheCpuStandsInForAMissingKernel) {
  config::add_test_device({.missing_kernels = {"relu"}});
  config::set_soft_device_placement(true);
  const auto scope = device("/gpu:0");
  EXPECT_EQ(relu(pair() + pair()).device(), "/device:CPU:0");
  EXPECT_EQ((pair() + pair()).device(), "/device:GPU:0");
  const Variable count(integers(), {.name = "count"});
  count.assign_add(integers());
  EXPECT_EQ(count.value().device(), "/device:CPU:0");
  EXPECT_EQ(count.value().to_vector<int32_t>(), (std::vector<int32_t>{2, 4}));
  EXPECT_EQ(placement_report(),
            (std::vector<Placement>{{"relu(float32[2])", "/device:GPU:0", "/device:CPU:0",
                                     "no kernel on /device:GPU:0"},
                                    {"variable 'count' int32[2]", "/device:GPU:0", "/device:CPU:0",
                                     "no kernel on /device:GPU:0"}}));
}

TEST_F(PlacementTest, AFallbackIsAWarningOnceForEachOpAndReason) {
  config::add_test_device({.missing_kernels = {"relu"}});
  config::set_soft_device_placement(true);
  for (const char* name : {"/gpu:0", "/gpu:0", "/gpu:5"}) {
    const auto scope = device(name);
    for (int64_t size = 1; size < 4; ++size) relu(fill({size}, 1.0));
  }
  const auto about_relu = [](const std::string& line) {
    return line.find("relu(") != std::string::npos;
  };
  EXPECT_EQ(std::ranges::count_if(warnings_, about_relu), 2);
  EXPECT_EQ(warnings_[0],
            "placement: relu(float32[1]) -> /device:CPU:0: asked for /device:GPU:0; no kernel on "
            "/device:GPU:0");
}

TEST_F(PlacementTest, WithSoftPlacementWhatNobodyCanRunIsStillAnError) {
  config::add_test_device();
  config::set_soft_device_placement(true);
  const auto scope = device("/gpu:0");
  // As if the shape rule let it pass.
  const op::TensorType type{DType::int32, {2}};
  const op::Signature signature{&op::find_op("relu"), {type}, {type}, {}, {}};
  EXPECT_TRUE(
      throws<NotFound>([&] { op::eager_interpreter().interpret(signature, {integers()}, {}); },
                       {"relu(int32[2])", "/device:GPU:0"}));
}

TEST_F(PlacementTest, SoftPlacementMayBeTurnedOffInsideAScope) {
  const auto scope = device("/gpu:0");
  config::set_soft_device_placement(true);
  EXPECT_EQ(relu(pair()).device(), "/device:CPU:0");
  config::set_soft_device_placement(false);
  EXPECT_TRUE(throws<NotFound>([] { relu(pair()); }, {"'/device:GPU:0' does not exist"}));
}

TEST_F(PlacementTest, TheLogSaysOnceForEachSignatureWhatWasAskedWhatWasGotAndWhy) {
  config::add_test_device({.missing_kernels = {"relu"}});
  config::set_log_device_placement(true);
  const Variable v = [] {
    const auto scope = device("/cpu:0");
    return Variable(pair(), {.name = "v"});
  }();
  for (int i = 0; i < 3; ++i) {
    const auto scope = device("/gpu:0");
    const Tensor sum = v + pair();
  }
  for (int i = 0; i < 3; ++i) relu(pair() * pair());
  relu(Tensor::from<float>({1, 2, 3}, {3}));
  const std::vector<Placement> expected{
      {"variable 'v' float32[2]", "/device:CPU:0", "/device:CPU:0", "the scope names it"},
      {"read_variable() of float32[2]", "/device:GPU:0", "/device:CPU:0",
       "the variable lives there"},
      {"add(float32[2], float32[2])", "/device:GPU:0", "/device:GPU:0", "the scope names it"},
      {"mul(float32[2], float32[2])", "", "/device:GPU:0", "first device"},
      {"relu(float32[2])", "", "/device:CPU:0", "no kernel on /device:GPU:0"},
      {"relu(float32[3])", "", "/device:CPU:0", "no kernel on /device:GPU:0"}};
  const auto report = placement_report();
  ASSERT_EQ(report.size(), expected.size());
  for (size_t i = 0; i < report.size(); ++i) {
    EXPECT_EQ(report[i], expected[i]) << report[i].op << ": " << report[i].reason;
  }
  EXPECT_EQ(lines_.size(), expected.size());
  EXPECT_EQ(lines_[3],
            "placement: mul(float32[2], float32[2]) -> /device:GPU:0: asked for no device; first "
            "device");
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(PlacementTest, WhenOffNothingIsReported) {
  config::add_test_device();
  relu(pair());
  EXPECT_TRUE(placement_report().empty());
  EXPECT_TRUE(lines_.empty());
}

TEST_F(PlacementTest, AClearedReportStartsAgain) {
  config::set_log_device_placement(true);
  relu(pair());
  clear_placement_report();
  EXPECT_TRUE(placement_report().empty());
  relu(pair());
  EXPECT_EQ(placement_report().size(), 1u);
}

TEST_F(PlacementTest, ShapesWithoutEndDoNotFillTheReport) {
  config::set_log_device_placement(true);
  for (int64_t size = 1; size <= 4200; ++size) fill({size}, 1.0);
  EXPECT_EQ(placement_report().size(), 4096u);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("4096"), std::string::npos) << warnings_[0];
}

TEST_F(PlacementTest, AnOpAfterAScopeLeftOutOfOrderIsRefused) {
  auto outer = std::unique_ptr<DeviceScope>(new DeviceScope(device("/cpu:0")));
  auto inner = std::unique_ptr<DeviceScope>(new DeviceScope(device("/gpu:0")));
  outer.reset();
  inner.reset();
  EXPECT_TRUE(throws<FailedPrecondition>([] { relu(pair()); },
                                         {"'/device:CPU:0' was left before '/device:GPU:0'"}));
  EXPECT_EQ(relu(pair()).to_vector<float>(), (Floats{1, 2}));
}

}  // namespace
}  // namespace tandem
