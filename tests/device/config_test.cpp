#include "tandem/config.h"

#include <gtest/gtest.h>

#include "core/signal.h"
#include "device/test/test_device.h"
#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/error.h"
#include "tandem/ops.h"
#include "tandem/variable.h"

namespace tandem::config {
namespace {

using harness::throws;
using Names = std::vector<std::string>;

class ConfigTest : public harness::FreshDevices {
 protected:
  template <class Devices>
  static Names names(const Devices& devices) {
    Names names;
    for (const auto& device : devices) names.push_back(device.name);
    return names;
  }
  static PhysicalDevice cpu() { return list_physical_devices("CPU").at(0); }
  static PhysicalDevice gpu(size_t index = 0) { return list_physical_devices("GPU").at(index); }
  static void use_a_device() { const Tensor use(1.0f); }
};

TEST_F(ConfigTest, TheMachinesDevicesAreListedWithCoresAndMemory) {
  add_test_device();
  add_test_device({.memory = 4096});
  EXPECT_EQ(names(list_physical_devices()),
            (Names{"/physical_device:CPU:0", "/physical_device:GPU:0", "/physical_device:GPU:1"}));
  EXPECT_EQ(cpu().backend, "cpu");
  EXPECT_EQ(cpu().threads, core::available_cores());
  EXPECT_GT(cpu().memory, size_t{1} << 28);
  EXPECT_EQ(gpu().backend, "test");
  EXPECT_EQ(gpu(1).memory, 4096u);
  EXPECT_TRUE(list_physical_devices("TPU").empty());
}

TEST_F(ConfigTest, LogicalDevicesSayWhatTheyArePartOf) {
  add_test_device();
  set_logical_cpus({{.threads = 2, .memory_limit = 1 << 20}, {.threads = 1}});
  const auto devices = list_logical_devices();
  ASSERT_EQ(names(devices), (Names{"/device:GPU:0", "/device:CPU:0", "/device:CPU:1"}));
  EXPECT_EQ(devices[0].physical, "/physical_device:GPU:0");
  EXPECT_EQ(devices[1].physical, "/physical_device:CPU:0");
  EXPECT_EQ(devices[1].threads, 2);
  EXPECT_EQ(devices[1].memory_limit, size_t{1} << 20);
  EXPECT_EQ(devices[2].memory_limit, 0u);
}

TEST_F(ConfigTest, ListingAllocatesNothingAndIsNoUse) {
  add_test_device();
  list_physical_devices();
  list_logical_devices();
  get_memory_info("CPU:0");
  for (const char* name : {"CPU:0", "GPU:0"}) EXPECT_EQ(get_memory_info(name).reserved, 0u) << name;
  EXPECT_NO_THROW(set_logical_cpus({{}, {}}));
}

TEST_F(ConfigTest, OnlyVisibleDevicesAreNumberedAndUsed) {
  add_test_device();
  add_test_device({.memory = 1 << 20});
  set_visible_devices({gpu(1)}, "GPU");
  EXPECT_EQ(names(list_logical_devices()), (Names{"/device:GPU:0", "/device:CPU:0"}));
  EXPECT_EQ(list_logical_devices("GPU")[0].physical, "/physical_device:GPU:1");
  EXPECT_EQ(names(get_visible_devices("GPU")), (Names{"/physical_device:GPU:1"}));
  EXPECT_EQ(names(get_visible_devices()),
            (Names{"/physical_device:CPU:0", "/physical_device:GPU:1"}));
  set_visible_devices({}, "GPU");
  EXPECT_EQ(names(list_logical_devices()), (Names{"/device:CPU:0"}));
  EXPECT_EQ(relu(fill({2}, 1.0)).device(), "/device:CPU:0");
}

TEST_F(ConfigTest, WithoutATypeAllDevicesAreChosen) {
  add_test_device();
  set_visible_devices({cpu()});
  EXPECT_EQ(names(list_logical_devices()), (Names{"/device:CPU:0"}));
  set_visible_devices(list_physical_devices());
  EXPECT_EQ(names(list_logical_devices()), (Names{"/device:GPU:0", "/device:CPU:0"}));
}

TEST_F(ConfigTest, TheCpuCannotBeHidden) {
  add_test_device();
  EXPECT_TRUE(throws<InvalidArgument>([] { set_visible_devices({}, "CPU"); },
                                      {"set_visible_devices", "/physical_device:CPU:0", "hidden"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { set_visible_devices({gpu()}); }, {"hidden"}));
  EXPECT_EQ(get_visible_devices().size(), 2u);
}

TEST_F(ConfigTest, DevicesOfAnotherTypeOrThatDoNotExistAreRefused) {
  add_test_device();
  EXPECT_TRUE(throws<InvalidArgument>([] { set_visible_devices({cpu()}, "GPU"); },
                                      {"/physical_device:CPU:0 is not of type GPU"}));
  const PhysicalDevice none{.name = "/physical_device:GPU:7", .type = "GPU", .backend = "test"};
  const Names parts{"'/physical_device:GPU:7' does not exist",
                    "/physical_device:CPU:0, /physical_device:GPU:0"};
  for (const std::function<void()>& call : std::vector<std::function<void()>>{
           [&] { set_visible_devices({none}); }, [&] { set_memory_growth(none, true); },
           [&] { get_memory_growth(none); }, [&] { get_logical_device_configuration(none); },
           [&] { set_logical_device_configuration(none, {{}}); }}) {
    EXPECT_TRUE(throws<NotFound>(call, {parts[0], parts[1]}));
  }
}

TEST_F(ConfigTest, AGpuIsCutIntoPartsWithMemoryOfTheirOwn) {
  add_test_device();
  set_logical_device_configuration(gpu(), {{.memory_limit = 8192}, {.memory_limit = 4096}});
  EXPECT_EQ(get_logical_device_configuration(gpu()).size(), 2u);
  EXPECT_EQ(names(list_logical_devices("GPU")), (Names{"/device:GPU:0", "/device:GPU:1"}));
  const auto scope = device("/gpu:1");
  const Tensor x = fill({100}, 2.0);
  EXPECT_EQ(x.device(), "/device:GPU:1");
  EXPECT_GE(get_memory_info("GPU:1").current, 400u);
  EXPECT_EQ(get_memory_info("GPU:0").current, 0u);
  EXPECT_EQ(get_memory_info("GPU:1").limit, 4096u);
}

TEST_F(ConfigTest, PartsThatCannotBeAreRefused) {
  add_test_device();
  EXPECT_TRUE(throws<InvalidArgument>([] { set_logical_device_configuration(gpu(), {}); },
                                      {"set_logical_device_configuration", "at least one"}));
  EXPECT_TRUE(
      throws<InvalidArgument>([] { set_logical_device_configuration(gpu(), {{.threads = 2}}); },
                              {"2 threads", "/physical_device:GPU:0", "only a CPU has threads"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] { set_logical_device_configuration(cpu(), {{.threads = -1}}); }, {"-1 threads"}));
}

TEST_F(ConfigTest, PastItsLimitADeviceNamesTheFiguresAndTheLargestTensors) {
  add_test_device();
  set_logical_device_configuration(gpu(), {{.memory_limit = 16 << 10}});
  const auto scope = device("/gpu:0");
  const Tensor large = fill({2048}, 1.0);
  Tensors small;
  for (int64_t size : {16, 32, 48, 64, 80}) small.push_back(fill({size}, 1.0));
  EXPECT_TRUE(throws<ResourceExhausted>(
      [&] { relu(large); },
      {"/device:GPU:0: out of memory", "8192 bytes requested", "9152 in use", "9152 at the peak",
       "limit 16384",
       "float32[2048] 8192 bytes, float32[80] 320 bytes, float32[64] 256 bytes, float32[48] 192 "
       "bytes, float32[32] 128 bytes"}));
  EXPECT_EQ(reduce_sum(large).item<float>(), 2048.0f);
}

TEST_F(ConfigTest, MemoryIsAccountedAndThePeakStartsAgain) {
  set_logical_cpus({{.threads = 1}});
  const size_t before = get_memory_info("CPU:0").current;
  { const Tensor large = fill({1000}, 1.0); }
  const Tensor small = fill({100}, 1.0);
  const MemoryInfo info = get_memory_info("/job:localhost/device:CPU:0");
  EXPECT_GE(info.peak, before + 4000);
  EXPECT_GE(info.current, before + 400);
  EXPECT_LT(info.current, before + 4000);
  EXPECT_GE(info.reserved, info.peak);
  reset_memory_stats("CPU:0");
  EXPECT_EQ(get_memory_info("CPU:0").peak, info.current);
}

TEST_F(ConfigTest, MemoryOfADeviceThatDoesNotExistIsNotFound) {
  EXPECT_TRUE(throws<NotFound>([] { get_memory_info("GPU:0"); },
                               {"get_memory_info", "'/device:GPU:0'", "/device:CPU:0"}));
  EXPECT_TRUE(throws<NotFound>([] { reset_memory_stats("GPU:0"); }, {"reset_memory_stats"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { get_memory_info("GPU:-1"); }, {"'GPU:-1'"}));
}

TEST_F(ConfigTest, WithoutGrowthTheWholeLimitIsTakenAtTheFirstTensor) {
  add_test_device();
  set_logical_device_configuration(gpu(), {{.memory_limit = 64 << 10}});
  EXPECT_TRUE(get_memory_growth(gpu()));
  set_memory_growth(gpu(), false);
  EXPECT_FALSE(get_memory_growth(gpu()));
  EXPECT_EQ(get_memory_info("GPU:0").reserved, 0u);
  const auto scope = device("/gpu:0");
  Tensor x = fill({1000}, 1.0);
  EXPECT_EQ(get_memory_info("GPU:0").reserved, 64u << 10);
  for (int64_t size = 1; size < 2000; size += 37) x = fill({size}, 3.0);
  EXPECT_EQ(reduce_mean(x).item<float>(), 3.0f);
  x = Tensor();
  x = fill({15000}, 2.0);  // More than any freed part: they join.
  EXPECT_EQ(reduce_sum(x).item<float>(), 30000.0f);
  EXPECT_EQ(get_memory_info("GPU:0").reserved, 64u << 10);
}

TEST_F(ConfigTest, WithoutGrowthThereMustBeALimit) {
  add_test_device();
  EXPECT_TRUE(throws<InvalidArgument>(
      [] { set_memory_growth(gpu(), false); },
      {"/physical_device:GPU:0", "no memory limit", "set_logical_device_configuration"}));
  EXPECT_TRUE(get_memory_growth(gpu()));
  set_logical_device_configuration(gpu(), {{.memory_limit = 4096}});
  set_memory_growth(gpu(), false);
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        set_logical_device_configuration(gpu(), {{.memory_limit = 4096}, {}});
      },
      {"no memory limit"}));
}

TEST_F(ConfigTest, AMachineWithLessThanTheReservedLimitIsExhausted) {
  add_test_device({.memory = 4096});
  set_logical_device_configuration(gpu(), {{.memory_limit = 8192}});
  set_memory_growth(gpu(), false);
  const auto scope = device("/gpu:0");
  EXPECT_TRUE(throws<ResourceExhausted>([] { fill({4}, 1.0); }, {"/device:GPU:0", "limit 8192"}));
}

TEST_F(ConfigTest, AfterAUseNoChangeOfDevicesIsPossible) {
  add_test_device();
  use_a_device();
  for (const std::function<void()>& call : std::vector<std::function<void()>>{
           [] { set_visible_devices({}, "GPU"); }, [] { set_memory_growth(gpu(), true); },
           [] { set_logical_cpus({{}}); }, [] { add_test_device(); },
           [] { set_logical_device_configuration(gpu(), {{}}); }}) {
    EXPECT_TRUE(throws<FailedPrecondition>(
        call, {"config:", "cannot change after a device has been used", "configure first"}));
  }
}

TEST_F(ConfigTest, SwitchesAreOffUnlessSetAndMayChangeAtAnyTime) {
  use_a_device();
  EXPECT_FALSE(get_soft_device_placement());
  EXPECT_FALSE(get_log_device_placement());
  EXPECT_FALSE(is_op_determinism_enabled());
  EXPECT_EQ(get_device_policy(), DevicePolicy::silent);
  set_soft_device_placement(true);
  set_log_device_placement(true);
  set_device_policy(DevicePolicy::warn);
  enable_op_determinism();
  EXPECT_TRUE(get_soft_device_placement());
  EXPECT_TRUE(get_log_device_placement());
  EXPECT_TRUE(is_op_determinism_enabled());
  EXPECT_EQ(get_device_policy(), DevicePolicy::warn);
}

}  // namespace
}  // namespace tandem::config
