#include <gtest/gtest.h>

#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/device.h"
#include "tandem/device/placement.h"
#include "tandem/function.h"
#include "tandem/gradient_tape.h"
#include "tandem/log.h"
#include "tandem/ops.h"
#include "tandem/variable.h"

namespace tandem {
namespace {

using config::DevicePolicy;
using harness::throws;
using Floats = std::vector<float>;
using Counts = std::vector<CopyCount>;

class CopiesTest : public harness::FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
    config::add_test_device();
    config::add_test_device();
    former_ = logging::set_sink(
        [this](logging::Level, std::string_view message) { lines_.emplace_back(message); });
  }
  void TearDown() override {
    logging::set_sink(former_);
    FreshDevices::TearDown();
  }

  static Tensor pair() { return Tensor::from<float>({1, 2}, {2}); }
  static Tensor pair_on(const char* name) { return copy_to_device(pair(), name); }

  std::vector<std::string> lines_;

 private:
  logging::Sink former_;
};

TEST_F(CopiesTest, CopiesAreCountedForEachPairOfDevices) {
  const Tensor x = pair();
  Tensor y;
  {
    const auto scope = device("/gpu:0");
    y = x + x;  // Two inputs, 8 bytes each.
  }
  {
    const auto scope = device("/gpu:1");
    y = relu(y);
  }
  EXPECT_EQ(copy_report(), (Counts{{"/device:CPU:0", "/device:GPU:0", 2, 16},
                                   {"/device:GPU:0", "/device:GPU:1", 1, 8}}));
  EXPECT_EQ(y.to_vector<float>(), (Floats{2, 4}));
  EXPECT_EQ(copy_report().back(), (CopyCount{"/device:GPU:1", "/device:CPU:0", 1, 8}));
  reset_copy_report();
  EXPECT_TRUE(copy_report().empty());
}

TEST_F(CopiesTest, WithinOneMemorySpaceNothingIsCopied) {
  const Tensor x = pair();
  const auto scope = device("/cpu:1");
  relu(x + x).to_vector<float>();
  EXPECT_TRUE(copy_report().empty());
}

TEST_F(CopiesTest, ACopyIsAWarningOnceForEachOpAndPair) {
  config::set_device_policy(DevicePolicy::warn);
  const Tensor x = pair();
  const auto scope = device("/gpu:0");
  for (int i = 0; i < 3; ++i) relu(x);
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_EQ(lines_[0], "relu: an input is copied from /device:CPU:0 to /device:GPU:0");
  EXPECT_EQ((x + x).to_vector<float>(), (Floats{2, 4}));
  EXPECT_EQ(lines_.size(), 2u);
}

TEST_F(CopiesTest, AForbiddenCopyNamesTheOpTheInputAndBothDevices) {
  config::set_device_policy(DevicePolicy::forbid);
  const Tensor x = pair_on("/gpu:0");
  const auto scope = device("/gpu:1");
  EXPECT_TRUE(throws<FailedPrecondition>(
      [&] { relu(x); }, {"relu: an input float32[2] is on /device:GPU:0", "runs on /device:GPU:1",
                         "forbids", "copy_to_device"}));
  EXPECT_EQ(relu(copy_to_device(x, "/gpu:1")).to_vector<float>(), (Floats{1, 2}));
}

TEST_F(CopiesTest, AForbiddenCopyOfAFunctionsArgumentIsRefusedToo) {
  config::set_device_policy(DevicePolicy::forbid);
  const auto f = function([](const Tensor& x) { return relu(x * 2.0); });
  const auto scope = device("/gpu:0");
  EXPECT_TRUE(throws<FailedPrecondition>([&] { f(pair()); }, {"function: an input float32[2]"}));
  EXPECT_EQ(f(pair_on("/gpu:0")).to_vector<float>(), (Floats{2, 4}));
}

TEST_F(CopiesTest, NumbersAndInitialValuesAreCopiedWhateverThePolicy) {
  config::set_device_policy(DevicePolicy::forbid);
  const auto scope = device("/gpu:0");
  const Variable v(pair());
  EXPECT_EQ((v * 3.0).to_vector<float>(), (Floats{3, 6}));
}

TEST_F(CopiesTest, AnExplicitCopyIsWhereItWasAskedForAndTapesSeeIt) {
  const Tensor x = pair_on("/gpu:0");
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor y = copy_to_device(x, "/gpu:1");
  const auto scope = device("/gpu:1");
  const Tensor z = reduce_sum(y * y);
  EXPECT_EQ(y.device(), "/device:GPU:1");
  EXPECT_EQ(tape.gradient(z, Tensors{x})[0].to_vector<float>(), (Floats{2, 4}));
  EXPECT_TRUE(throws<NotFound>([&] { copy_to_device(x, "/gpu:9"); }, {"'/device:GPU:9'"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { copy_to_device(x, "/gpu:"); }, {"'/gpu:'"}));
}

}  // namespace
}  // namespace tandem
