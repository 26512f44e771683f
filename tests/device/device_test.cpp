#include <gtest/gtest.h>

#include <algorithm>

#include "device/logical_device.h"
#include "device/scope.h"
#include "device/task.h"
#include "device/test/test_device.h"
#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/error.h"
#include "tensor/body.h"

namespace tandem::devices {
namespace {

using harness::throws;
using namespace std::chrono_literals;

class DeviceTest : public harness::FreshDevices {
 protected:
  static std::vector<std::string> names(std::string_view type = {}) {
    std::vector<std::string> names;
    for (const auto& device : config::list_logical_devices(type)) names.push_back(device.name);
    return names;
  }
  static std::vector<int> threads() {
    std::vector<int> threads;
    for (const auto& device : config::list_logical_devices("CPU"))
      threads.push_back(device.threads);
    return threads;
  }
  static DevicePtr find(std::string_view name) { return find_device(DeviceSpec::parse(name)); }
};

using Names = std::vector<std::string>;

TEST_F(DeviceTest, UnlessSplitThereIsOneCpuWithAllCores) {
  const auto devices = config::list_logical_devices();
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(devices[0].name, "/device:CPU:0");
  EXPECT_EQ(devices[0].type, "CPU");
  EXPECT_EQ(devices[0].backend, "cpu");
  EXPECT_EQ(devices[0].threads, core::available_cores());
}

TEST_F(DeviceTest, LogicalCpusHaveTheThreadsAskedFor) {
  config::set_logical_cpus({{.threads = 3}, {.threads = 1}, {.threads = 2}});
  EXPECT_EQ(names(), (Names{"/device:CPU:0", "/device:CPU:1", "/device:CPU:2"}));
  EXPECT_EQ(threads(), (std::vector<int>{3, 1, 2}));
  EXPECT_EQ(find("/cpu:2")->threads(), 2);
}

TEST_F(DeviceTest, ZeroThreadsAreAnEvenShareOfTheCoresAndAtLeastOne) {
  const int cores = core::available_cores();
  config::set_logical_cpus({{}, {}});
  EXPECT_EQ(threads(), (std::vector<int>(2, std::max(1, cores / 2))));
  config::set_logical_cpus(std::vector<config::LogicalCpu>(static_cast<size_t>(4 * cores)));
  EXPECT_EQ(threads(), std::vector<int>(static_cast<size_t>(4 * cores), 1));
  config::set_logical_cpus({{.threads = 5}, {}});
  EXPECT_EQ(threads(), (std::vector<int>{5, std::max(1, cores / 2)}));
}

TEST_F(DeviceTest, AnEmptyListOfCpusIsRefused) {
  EXPECT_TRUE(throws<InvalidArgument>([] { config::set_logical_cpus({}); },
                                      {"set_logical_cpus", "at least one"}));
}

TEST_F(DeviceTest, ANegativeNumberOfThreadsIsRefusedAndChangesNothing) {
  config::set_logical_cpus({{.threads = 2}});
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        config::set_logical_cpus({{.threads = 1}, {.threads = -4}});
      },
      {"set_logical_cpus", "-4 threads", "positive"}));
  EXPECT_EQ(threads(), (std::vector<int>{2}));
}

TEST_F(DeviceTest, UntilUsedTheCpusCanBeSplitAgain) {
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  config::set_logical_cpus({{.threads = 2}});
  EXPECT_EQ(names(), (Names{"/device:CPU:0"}));
}

TEST_F(DeviceTest, ListingDevicesTouchesNone) {
  test::add_test_gpu();
  EXPECT_EQ(config::list_logical_devices().size(), 2u);
  EXPECT_EQ(all_devices().size(), 2u);
  EXPECT_NO_THROW(config::set_logical_cpus({{.threads = 1}, {.threads = 1}}));
  EXPECT_NO_THROW(test::add_test_gpu({.index = 1}));
  EXPECT_EQ(config::list_logical_devices().size(), 4u);
}

TEST_F(DeviceTest, DevicesAreListedByTypeWithGpusFirst) {
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  test::add_test_gpu({.index = 0});
  test::add_test_gpu({.index = 1});
  EXPECT_EQ(names(), (Names{"/device:GPU:0", "/device:GPU:1", "/device:CPU:0", "/device:CPU:1"}));
  EXPECT_EQ(names("GPU"), (Names{"/device:GPU:0", "/device:GPU:1"}));
  EXPECT_EQ(names("CPU"), (Names{"/device:CPU:0", "/device:CPU:1"}));
  EXPECT_EQ(names("TPU"), Names{});
  EXPECT_EQ(config::list_logical_devices("GPU")[0].backend, "test");
}

TEST_F(DeviceTest, AfterATensorWasMadeTheDevicesAreFixed) {
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  const Tensor use(1.0f);
  EXPECT_TRUE(throws<FailedPrecondition>(
      [] { config::set_logical_cpus({{.threads = 2}}); },
      {"logical CPUs", "after a device has been used", "configure first"}));
  EXPECT_TRUE(throws<FailedPrecondition>([] { test::add_test_gpu(); },
                                         {"devices", "after a device has been used"}));
  EXPECT_EQ(names(), (Names{"/device:CPU:0", "/device:CPU:1"}));
}

TEST_F(DeviceTest, AfterADeviceWasFoundTheDevicesAreFixed) {
  find("/cpu:0");
  EXPECT_TRUE(throws<FailedPrecondition>([] { config::set_logical_cpus({{.threads = 2}}); },
                                         {"after a device has been used"}));
}

TEST_F(DeviceTest, WhatANameLeavesOpenIsTheFirstThatMatches) {
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  test::add_test_gpu({.index = 0});
  test::add_test_gpu({.index = 1});
  EXPECT_EQ(find("")->name(), "/device:GPU:0");
  EXPECT_EQ(find("/gpu")->name(), "/device:GPU:0");
  EXPECT_EQ(find("/cpu:*")->name(), "/device:CPU:0");
  EXPECT_EQ(find("/device:*:1")->name(), "/device:GPU:1");
  EXPECT_EQ(find("cpu:1")->name(), "/device:CPU:1");
}

TEST_F(DeviceTest, TheDevicesOfThisProcessAreThoseOfTheLocalJob) {
  test::add_test_gpu();
  EXPECT_EQ(find("/job:localhost/replica:0/task:0/device:CPU:0")->name(), "/device:CPU:0");
  EXPECT_EQ(find("/job:localhost/gpu:0")->name(), "/device:GPU:0");
  EXPECT_EQ(find("/replica:0/task:0/cpu")->name(), "/device:CPU:0");
  for (const char* name : {"/job:worker/cpu:0", "/replica:1/cpu:0", "/task:1/cpu:0"}) {
    EXPECT_TRUE(throws<NotFound>([&] { find(name); },
                                 {"is another task's, and this process is /job:localhost/task:0"}))
        << name;
  }
}

TEST_F(DeviceTest, InAClusterNamesCarryJobAndTask) {
  set_task("worker", 1);
  EXPECT_EQ(full_name(*find("/CPU:0")), "/job:worker/task:1/device:CPU:0");
  EXPECT_EQ(config::list_logical_devices("CPU")[0].name, "/job:worker/task:1/device:CPU:0");
  for (const char* name :
       {"/job:worker/task:1/device:CPU:0", "/job:worker/replica:0/task:1/device:CPU:0",
        "/task:1/cpu:0", "/job:worker", "/cpu:0", "/job:localhost/replica:0/task:0/device:CPU:0"}) {
    EXPECT_EQ(find(name), find("/CPU:0")) << name;
  }
  for (const char* name : {"/job:worker/task:0/device:CPU:0", "/job:ps/cpu:0", "/task:0/cpu:0"}) {
    EXPECT_TRUE(throws<NotFound>([&] { find(name); },
                                 {"'" + DeviceSpec::parse(name).str() + "' is another task's",
                                  "this process is /job:worker/task:1"}))
        << name;
  }
  EXPECT_TRUE(throws<NotFound>([] { find("/job:worker/task:1/cpu:7"); }, {"does not exist"}));
}

TEST_F(DeviceTest, SoftPlacementDoesNotStandInForAnotherTask) {
  set_task("worker", 1);
  config::set_soft_device_placement(true);
  const auto scope = device("/job:worker/task:0/cpu:0");
  EXPECT_TRUE(throws<NotFound>([] { scope_device(); }, {"/job:worker/task:0"}));
}

TEST_F(DeviceTest, AnUnknownDeviceIsNotFoundAndTheDevicesThatExistAreListed) {
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  test::add_test_gpu();
  EXPECT_TRUE(throws<NotFound>(
      [] { find("/gpu:7"); },
      {"'/device:GPU:7' does not exist", "/device:GPU:0, /device:CPU:0, /device:CPU:1"}));
  EXPECT_TRUE(throws<NotFound>([] { find("/device:TPU:0"); }, {"'/device:TPU:0'"}));
  EXPECT_TRUE(throws<NotFound>([] { find("/job:ps/cpu:0"); }, {"'/job:ps/device:CPU:0'"}));
}

TEST_F(DeviceTest, TheHostIsTheFirstCpu) {
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  test::add_test_gpu();
  EXPECT_EQ(host_device()->name(), "/device:CPU:0");
}

TEST_F(DeviceTest, LogicalCpusShareMemoryAndAreAccountedApart) {
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  const DevicePtr first = find("/cpu:0");
  const DevicePtr second = find("/cpu:1");
  EXPECT_EQ(&first->space(), &second->space());
  EXPECT_TRUE(first->space().host_readable());
  const auto body = new_body(second, DType::float32, {1000});
  EXPECT_EQ(first->allocator().info().current, 0u);
  EXPECT_GE(second->allocator().info().current, 4000u);
}

TEST_F(DeviceTest, NoTwoDevicesEverHaveOneId) {
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  const uint64_t first = find("/cpu:0")->id();
  const uint64_t second = find("/cpu:1")->id();
  reset_devices();
  const uint64_t later = find("/cpu:0")->id();
  EXPECT_NE(first, second);
  EXPECT_NE(later, first);
  EXPECT_NE(later, second);
}

TEST_F(DeviceTest, TheWaitDeadlineIsTwoMinutesUnlessSet) {
  EXPECT_EQ(config::wait_deadline(), 120s);
  config::set_wait_deadline(250ms);
  EXPECT_EQ(config::wait_deadline(), 250ms);
}

TEST_F(DeviceTest, AWaitDeadlineThatIsNotPositiveIsRefused) {
  for (const auto deadline : {0ns, -1ns}) {
    EXPECT_TRUE(throws<InvalidArgument>([&] { config::set_wait_deadline(deadline); },
                                        {"set_wait_deadline", "positive"}));
  }
  EXPECT_EQ(config::wait_deadline(), 120s);
}

}  // namespace
}  // namespace tandem::devices
