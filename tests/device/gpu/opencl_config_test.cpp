// What tandem::config says about OpenCL devices holds: which are seen, how much memory they have,
// and which cannot be used.
#include <gtest/gtest.h>

#include "device/opencl/opencl_devices.h"
#include "device/opencl/opencl_driver.h"
#include "harness/faulty_driver.h"
#include "harness/fresh_devices.h"
#include "harness/opencl.h"
#include "harness/throws.h"
#include "tandem/tandem.h"

namespace tandem::devices::opencl {
namespace {

using harness::throws;

class OpenClConfig : public harness::FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    harness::use_opencl();
    gpus = config::list_physical_devices("GPU");
    ASSERT_EQ(gpus.size(), 2u);
  }
  static float sum_on(const char* name, int64_t count) {
    const auto scope = device(name);
    return reduce_sum(fill({count}, 1.0f, DType::float32)).item<float>();
  }
  std::vector<config::PhysicalDevice> gpus;
};

TEST_F(OpenClConfig, DevicesThatAreNotVisibleDoNotExist) {
  config::set_visible_devices({gpus[1]}, "GPU");
  EXPECT_EQ(config::list_logical_devices("GPU").size(), 1u);
  EXPECT_EQ(sum_on("/GPU:0", 10), 10);
  EXPECT_TRUE(throws<NotFound>([] { sum_on("/GPU:1", 10); }, {"/device:GPU:1"}));
}

TEST_F(OpenClConfig, ALimitHoldsAndIsNamed) {
  config::set_logical_device_configuration(gpus[0],
                                           {{.memory_limit = 1 << 20}, {.memory_limit = 4 << 20}});
  EXPECT_EQ(sum_on("/GPU:0", 1000), 1000);
  EXPECT_TRUE(throws<ResourceExhausted>([] { sum_on("/GPU:0", 500'000); },
                                        {"/device:GPU:0", "2000000 bytes"}));
  EXPECT_EQ(sum_on("/GPU:1", 500'000), 500'000);
  EXPECT_EQ(sum_on("/GPU:0", 1000), 1000);
}

TEST_F(OpenClConfig, WithoutALimitADeviceHasMostOfTheMemoryThatItShares) {
  const auto gpu = find_device(DeviceSpec::parse("/GPU:0"));
  const size_t all = find_drivers()[0]->description().memory;
  EXPECT_EQ(gpu->allocator().info().limit, all / 10 * 9 / 2);
  EXPECT_EQ(gpus[0].memory, all / 10 * 9 / 2);
}

TEST_F(OpenClConfig, WithoutGrowthTheLimitIsTakenAtOnce) {
  config::set_logical_device_configuration(gpus[0], {{.memory_limit = 8 << 20}});
  config::set_memory_growth(gpus[0], false);
  EXPECT_EQ(sum_on("/GPU:0", 1000), 1000);
  const auto info = find_device(DeviceSpec::parse("/GPU:0"))->allocator().info();
  EXPECT_EQ(info.reserved, size_t{8} << 20);
  EXPECT_EQ(info.space_allocations, 1u);
  for (int i = 0; i < 20; ++i) sum_on("/GPU:0", 1000 * i + 1);
  EXPECT_EQ(find_device(DeviceSpec::parse("/GPU:0"))->allocator().info().space_allocations, 1u);
}

TEST_F(OpenClConfig, ADeviceWithoutFloat64IsListedAsUnusableWithTheReason) {
  const auto drivers = find_drivers();
  gpu::Description described = drivers[0]->description();
  described.name = "a small one";
  described.unusable = why_unusable({.extensions = "cl_khr_icd", .group_size = 1024});
  const Found found = devices_of({harness::describe_as(drivers[0], described), drivers[1]}, true);
  ASSERT_EQ(found.usable.size(), 1u);
  EXPECT_EQ(found.usable[0].description.hardware, drivers[1]->description().name);
  ASSERT_EQ(found.unusable.size(), 1u);
  EXPECT_EQ(found.unusable[0].hardware, "a small one");
  EXPECT_NE(found.unusable[0].reason.find("float64"), std::string::npos);
}

TEST_F(OpenClConfig, WhatADeviceMustHave) {
  EXPECT_EQ(why_unusable({.extensions = "a cl_khr_fp64 b", .group_size = 256}), "");
  EXPECT_NE(why_unusable({.extensions = "cl_khr_fp64", .has_compiler = false, .group_size = 256}),
            "");
  EXPECT_NE(why_unusable({.extensions = "cl_khr_fp64", .group_size = 128}), "");
}

TEST_F(OpenClConfig, DevicesThatAreCpusCountOnlyWhereSomebodyAsks) {
  EXPECT_TRUE(devices_of(find_drivers(), false).usable.empty());
  EXPECT_EQ(devices_of(find_drivers(), true).usable.size(), 2u);
}

}  // namespace
}  // namespace tandem::devices::opencl
