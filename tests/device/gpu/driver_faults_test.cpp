// What happens when the driver of a GPU refuses something: an error that names the device, nothing
// lost, nothing leaked, and the other devices go on.
#include <gtest/gtest.h>

#include "device/gpu/compiler.h"
#include "device/gpu/gpu_device.h"
#include "device/opencl/opencl_driver.h"
#include "harness/faulty_driver.h"
#include "harness/fresh_devices.h"
#include "harness/opencl.h"
#include "harness/throws.h"
#include "tandem/tandem.h"

namespace tandem::devices::gpu {
namespace {

using harness::DriverCall;
using harness::FaultPlan;
using harness::throws;

class DriverFaults : public harness::FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    harness::set_opencl_environment();
    set_kernel_form(KernelForm::serial);
    const auto drivers = opencl::find_drivers();
    ASSERT_GE(drivers.size(), 2u);
    plan = std::make_shared<FaultPlan>();
    Inventory::instance().add(physical_gpu("opencl", harness::make_faulty(drivers[0], plan), 2));
    Inventory::instance().add(physical_gpu("opencl", drivers[1], 2));
  }

  /// Two of the results are read, so that late errors show up.
  static std::vector<float> compute(const char* where) {
    const auto scope = device(where);
    const Tensor x = Tensor::of({{1.0f, 2.0f}, {3.0f, 4.0f}});
    const Tensor y = matmul(x, x) + 1.0;
    return (y * y).to_vector<float>();
  }

  static const std::vector<float>& expected() {
    static const std::vector<float> values = {64, 121, 256, 529};
    return values;
  }

  std::shared_ptr<FaultPlan> plan;
};

TEST_F(DriverFaults, EachRefusalIsAnErrorThatNamesTheDeviceAndTheNextTryWorks) {
  EXPECT_EQ(compute("/GPU:0"), expected());
  for (const DriverCall call : {DriverCall::launch, DriverCall::write, DriverCall::read}) {
    const int before = plan->calls(call);
    compute("/GPU:0");
    const int calls = plan->calls(call) - before;
    EXPECT_GT(calls, 0);
    for (int n = 1; n <= calls; ++n) {
      plan->fail(call, n);
      EXPECT_TRUE(throws<ResourceExhausted>([] { compute("/GPU:0"); }, {harness::name_of(call)}))
          << n;
      plan->fail_no_more();
      EXPECT_EQ(compute("/GPU:1"), expected());
      EXPECT_EQ(compute("/GPU:0"), expected()) << harness::name_of(call) << " " << n;
    }
  }
}

TEST_F(DriverFaults, AKernelThatDoesNotCompileShowsTheCompilersLog) {
  plan->fail(DriverCall::compile, 1, true);
  EXPECT_TRUE(
      throws<InvalidArgument>([] { compute("/GPU:0"); }, {"matmul", "/device:GPU:0", "line 7"}));
  plan->fail_no_more();
  EXPECT_EQ(compute("/GPU:0"), expected());
}

TEST_F(DriverFaults, ATextThatDoesNotCompileDoesNotKeepOthersFromIt) {
  Compiler compiler("/device:GPU:0", opencl::find_drivers()[0], KernelForm::serial);
  const auto good = compiler.add({.name = "good", .body = "KERNEL NAME(MEMORY(0)) {}"});
  const auto bad = compiler.add({.name = "bad", .body = "KERNEL NAME(MEMORY(0)) { nonsense }"});
  for (int i = 0; i < 2; ++i) {
    compiler.get(*good);
    EXPECT_TRUE(
        throws<InvalidArgument>([&] { compiler.get(*bad); }, {"/device:GPU:0", "nonsense"}));
  }
}

TEST_F(DriverFaults, OutOfMemoryNamesTheDeviceAndLeavesTheRestUsable) {
  EXPECT_EQ(compute("/GPU:0"), expected());
  plan->fail(DriverCall::allocate, 1, true);
  const auto large = [] {
    const auto scope = device("/GPU:0");
    return fill({1000, 1000}, 1.0f, DType::float32).to_vector<float>();
  };
  EXPECT_TRUE(
      throws<ResourceExhausted>(large, {"/device:GPU:0", "out of memory", "4000000 bytes"}));
  EXPECT_EQ(compute("/GPU:1"), expected());
  plan->fail_no_more();
  EXPECT_EQ(large().size(), 1'000'000u);
}

TEST_F(DriverFaults, ALostDeviceThrowsAtEveryWaitAndTheOthersGoOn) {
  EXPECT_EQ(compute("/GPU:0"), expected());
  plan->fail(DriverCall::ask_mark, 1, true);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(throws<Unavailable>([] { compute("/GPU:0"); }, {"ask_mark"}));
    EXPECT_EQ(compute("/GPU:1"), expected());
  }
}

TEST_F(DriverFaults, WeightsStayThoseOfTheLastWholeStep) {
  const auto scope = device("/GPU:0");
  const Variable weights(fill({4}, 1.0f, DType::float32));
  const auto step = function([&](const Tensor& x) {
    weights.assign_add(x);
    return reduce_sum(weights.value());
  });
  const Tensor one = fill({4}, 1.0f, DType::float32);
  EXPECT_EQ(step(one).item<float>(), 8);
  const std::vector<float> before = weights.value().to_vector<float>();
  plan->fail(DriverCall::launch, 1);
  EXPECT_TRUE(throws<ResourceExhausted>([&] { step(one).item<float>(); }, {"launch"}));
  EXPECT_EQ(weights.value().to_vector<float>(), before);
  EXPECT_EQ(step(one).item<float>(), 12);
}

TEST_F(DriverFaults, NothingIsLeaked) {
  for (int i = 0; i < 3; ++i) compute("/GPU:0");
  plan->fail(DriverCall::launch, 2);
  EXPECT_TRUE(throws<ResourceExhausted>([] { compute("/GPU:0"); }, {"launch"}));
  for (const auto& device : all_devices()) {
    device->queue().record().wait(std::chrono::seconds(5));  // Work in flight holds its device.
  }
  devices::reset_devices();
  static_cast<void>(Tensor(1.0f) + 1.0);  // Threads remember the devices until they need others.
  EXPECT_EQ(plan->live_allocations, 0);
}

}  // namespace
}  // namespace tandem::devices::gpu
