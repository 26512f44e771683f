#include "graph/function_placement.h"

#include <gtest/gtest.h>

#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/device.h"
#include "tandem/device/placement.h"
#include "tandem/function.h"
#include "tandem/log.h"
#include "tandem/ops.h"
#include "tandem/variable.h"

namespace tandem {
namespace {

using harness::throws;
using Floats = std::vector<float>;

class HomeTest : public harness::FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    former_ = logging::set_sink([this](logging::Level level, std::string_view message) {
      if (level == logging::Level::warning) warnings_.emplace_back(message);
    });
  }
  void TearDown() override {
    logging::set_sink(former_);
    FreshDevices::TearDown();
  }
  static Tensor pair() { return Tensor::from<float>({1, 2}, {2}); }
  static auto doubled() {
    return function([](const Tensor& x) { return relu(x + x); });
  }

  std::vector<std::string> warnings_;

 private:
  logging::Sink former_;
};

TEST_F(HomeTest, AScopeAroundAFunctionHoldsForIt) {
  config::add_test_device();
  config::add_test_device();
  const auto f = doubled();
  for (const char* name : {"/device:GPU:1", "/device:CPU:0", "/device:GPU:0"}) {
    const auto scope = device(name);
    const Tensor y = f(pair());
    EXPECT_EQ(y.device(), name);
    EXPECT_EQ(y.to_vector<float>(), (Floats{2, 4}));
  }
}

TEST_F(HomeTest, UnaskedAFunctionRunsWhereEveryOpHasAKernel) {
  config::add_test_device({.missing_kernels = {"relu"}});
  EXPECT_EQ(doubled()(pair()).device(), "/device:CPU:0");
  EXPECT_EQ(function([](const Tensor& x) { return x * 2.0; })(pair()).device(), "/device:GPU:0");
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(HomeTest, AScopeWithoutADeviceIsRefused) {
  const auto scope = device("/gpu:0");
  EXPECT_TRUE(
      throws<NotFound>([] { doubled()(pair()); },
                       {"function: device '/device:GPU:0' does not exist", "/device:CPU:0"}));
}

TEST_F(HomeTest, WithSoftPlacementTheHostStandsInForADeviceThatDoesNotExist) {
  config::set_soft_device_placement(true);
  const auto scope = device("/gpu:0");
  const auto f = doubled();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(f(pair()).device(), "/device:CPU:0");
  EXPECT_EQ(warnings_, (std::vector<std::string>{
                           "placement: function -> /device:CPU:0: asked for /device:GPU:0; "
                           "/device:GPU:0 does not exist"}));
}

TEST_F(HomeTest, WithSoftPlacementTheHostStandsInForAMissingKernel) {
  config::add_test_device({.missing_kernels = {"relu"}});
  const auto scope = device("/gpu:0");
  EXPECT_TRUE(throws<NotFound>([] { doubled()(pair()); }, {"relu(float32[None]): no kernel"}));
  config::set_soft_device_placement(true);
  const Tensor y = doubled()(pair());
  EXPECT_EQ(y.device(), "/device:CPU:0");
  EXPECT_EQ(y.to_vector<float>(), (Floats{2, 4}));
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("no kernel on /device:GPU:0 for relu"), std::string::npos)
      << warnings_[0];
}

TEST_F(HomeTest, WhereTheHostStandsInVariablesAreReadWhereTheyLive) {
  config::add_test_device({.missing_kernels = {"relu"}});
  config::set_soft_device_placement(true);
  const auto scope = device("/gpu:0");
  const Variable v(pair());
  const auto f = function([&](const Tensor& x) { return relu(x * v); });
  EXPECT_EQ(f(pair()).to_vector<float>(), (Floats{1, 4}));
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(HomeTest, TheLogNamesTheOpsOfAFunction) {
  config::add_test_device();
  config::set_log_device_placement(true);
  const auto f = function([](const Tensor& x) { return relu(x + x); });
  for (int i = 0; i < 3; ++i) f(pair());
  EXPECT_EQ(placement_report(),
            (std::vector<Placement>{{"add(float32[None], float32[None])", "", "/device:GPU:0",
                                     "its function runs there: first device"},
                                    {"relu(float32[None])", "", "/device:GPU:0",
                                     "its function runs there: first device"}}));
}

}  // namespace
}  // namespace tandem
