#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "harness/throws.h"
#include "tandem/device.h"
#include "tandem/error.h"

namespace tandem {
namespace {

using harness::throws;

std::string canonical(std::string_view name) { return DeviceSpec::parse(name).str(); }

TEST(DeviceSpec, AFullNameSetsEveryPart) {
  const auto spec = DeviceSpec::parse("/job:worker/replica:2/task:1/device:GPU:0");
  EXPECT_EQ(spec.job, "worker");
  EXPECT_EQ(spec.replica, 2);
  EXPECT_EQ(spec.task, 1);
  EXPECT_EQ(spec.type, "GPU");
  EXPECT_EQ(spec.index, 0);
  EXPECT_EQ(spec.str(), "/job:worker/replica:2/task:1/device:GPU:0");
}

TEST(DeviceSpec, AnyPartMayBeLeftOut) {
  const auto spec = DeviceSpec::parse("/job:ps/task:3");
  EXPECT_EQ(spec.job, "ps");
  EXPECT_EQ(spec.task, 3);
  EXPECT_FALSE(spec.replica || spec.type || spec.index);
  EXPECT_EQ(DeviceSpec::parse(""), DeviceSpec());
}

TEST(DeviceSpec, AMissingIndexIsAWildcard) {
  for (const char* name : {"/device:GPU", "/gpu", "gpu", "/device:GPU:*", "/gpu:*", "GPU:*"}) {
    const auto spec = DeviceSpec::parse(name);
    EXPECT_EQ(spec.type, "GPU") << name;
    EXPECT_EQ(spec.index, std::nullopt) << name;
  }
}

TEST(DeviceSpec, AStarLeavesAPartOpen) {
  EXPECT_EQ(DeviceSpec::parse("/job:*/replica:*/task:*/device:*:*"), DeviceSpec());
  EXPECT_EQ(DeviceSpec::parse("/device:*"), DeviceSpec());
  const auto any_second = DeviceSpec::parse("/job:worker/task:*/device:*:1");
  EXPECT_EQ(any_second.job, "worker");
  EXPECT_EQ(any_second.task, std::nullopt);
  EXPECT_EQ(any_second.type, std::nullopt);
  EXPECT_EQ(any_second.index, 1);
}

TEST(DeviceSpec, ShortFormsNameTheDeviceAlone) {
  EXPECT_EQ(canonical("/gpu:0"), "/device:GPU:0");
  EXPECT_EQ(canonical("GPU:1"), "/device:GPU:1");
  EXPECT_EQ(canonical("cpu"), "/device:CPU:*");
  EXPECT_EQ(canonical("/cpu:0"), "/device:CPU:0");
  EXPECT_EQ(canonical("device:GPU:3"), "/device:GPU:3");
  EXPECT_EQ(canonical("/job:worker/gpu:2"), "/job:worker/device:GPU:2");
}

TEST(DeviceSpec, CaseDoesNotMatterExceptInJobs) {
  EXPECT_EQ(canonical("/JOB:Worker/Replica:0/TASK:1/Device:gpu:2"),
            "/job:Worker/replica:0/task:1/device:GPU:2");
  EXPECT_EQ(canonical("/Gpu:0"), "/device:GPU:0");
  EXPECT_EQ(canonical("cPU:1"), "/device:CPU:1");
}

TEST(DeviceSpec, TypesOtherThanCpuAndGpuFollowTheWordDevice) {
  EXPECT_EQ(canonical("/device:tpu:0"), "/device:TPU:0");
  EXPECT_EQ(canonical("/device:XLA_GPU:12"), "/device:XLA_GPU:12");
  EXPECT_TRUE(throws<InvalidArgument>([] { DeviceSpec::parse("/tpu:0"); }, {"'/tpu:0'"}));
}

TEST(DeviceSpec, PartsAreReadInAnyOrderAndPrintedInOne) {
  EXPECT_EQ(canonical("/device:GPU:0/task:1/job:worker"), "/job:worker/task:1/device:GPU:0");
  EXPECT_EQ(canonical("gpu:0/task:1"), "/task:1/device:GPU:0");
}

TEST(DeviceSpec, WhatIsPrintedParsesToTheSame) {
  for (const char* name :
       {"", "/job:a_1", "/replica:7", "/task:0", "/device:CPU:*", "/device:*:4",
        "/job:w/device:GPU:2147483647", "/job:w/replica:0/task:10/device:CPU:3"}) {
    const auto spec = DeviceSpec::parse(name);
    EXPECT_EQ(spec.str(), name);
    EXPECT_EQ(DeviceSpec::parse(spec.str()), spec) << name;
  }
}

TEST(DeviceSpec, AMalformedNameIsRefusedWithTheNameThePlaceAndWhatIsAccepted) {
  const std::vector<std::pair<const char*, const char*>> names{
      {"/", "nothing follows the slash"},
      {"//gpu:0", "'' is no part"},
      {"/gpu:0/", "'' is no part"},
      {"/job:worker//task:0", "'' is no part"},
      {"/foo:1", "'foo:1' is no part"},
      {"foo", "'foo' is no part"},
      {"/job", "'job' is no part"},
      {"/task", "'task' is no part"},
      {"/device", "'device' is no part"},
      {"/job:", "'' is no job"},
      {"/job:1st", "'1st' is no job"},
      {"/job:my job", "'my job' is no job"},
      {"/job:worker ", "'worker ' is no job"},
      {"/replica:", "'' is not a number for 'replica'"},
      {"/replica:one", "'one' is not a number for 'replica'"},
      {"/task:-1", "'-1' is not a number for 'task'"},
      {"/task:+1", "'+1' is not a number for 'task'"},
      {"/task:1.5", "'1.5' is not a number for 'task'"},
      {"/gpu:-1", "'-1' is not a number for 'gpu'"},
      {"/gpu:", "'' is not a number for 'gpu'"},
      {"/gpu:0x1", "'0x1' is not a number for 'gpu'"},
      {"/gpu:2147483648", "'2147483648' is not a number for 'gpu'"},
      {"/gpu:0:1", "'0:1' is not a number for 'gpu'"},
      {"/gpu:0 ", "'0 ' is not a number for 'gpu'"},
      {"/gpu:**", "'**' is not a number for 'gpu'"},
      {" /gpu:0", "' ' is no part"},
      {"gpu ", "'gpu ' is no part"},
      {"/device:", "'' is no type"},
      {"/device::0", "'' is no type"},
      {"/device:0", "'0' is no type"},
      {"/device:G PU:0", "'G PU' is no type"},
      {"/device:GPU:x", "'x' is not a number for 'GPU'"},
      {"/device:GPU:", "'' is not a number for 'GPU'"},
      {"/device:GPU:0 ", "'0 ' is not a number for 'GPU'"},
  };
  for (const auto& [name, reason] : names) {
    const std::string quoted = "device name '" + std::string(name) + "'";
    EXPECT_TRUE(throws<InvalidArgument>(
        [&name = name] { DeviceSpec::parse(name); },
        {quoted, reason, "/job:worker/replica:0/task:1/device:GPU:0", "/gpu:0"}))
        << name;
  }
}

TEST(DeviceSpec, APartGivenTwiceIsRefused) {
  const std::vector<std::pair<const char*, const char*>> names{
      {"/job:a/job:a", "'job' is given twice"},
      {"/replica:0/replica:1", "'replica' is given twice"},
      {"/task:0/task:0", "'task' is given twice"},
      {"/device:GPU:0/device:GPU:0", "'device' is given twice"},
      {"/device:GPU:0/cpu:0", "'device' is given twice"},
      {"/cpu/gpu", "'device' is given twice"},
      {"/device:*:1/device:CPU", "'device' is given twice"},
  };
  for (const auto& [name, reason] : names) {
    EXPECT_TRUE(throws<InvalidArgument>([&name = name] { DeviceSpec::parse(name); },
                                        {name, reason, "a device name looks like"}))
        << name;
  }
}

TEST(DeviceSpec, MergingIsPerPartAndTheInnerWins) {
  const auto merged = [](const char* outer, const char* inner) {
    return DeviceSpec::parse(outer).merged_with(DeviceSpec::parse(inner)).str();
  };
  EXPECT_EQ(merged("/job:worker/task:1", "/device:GPU:0"), "/job:worker/task:1/device:GPU:0");
  EXPECT_EQ(merged("/job:worker/task:1", "/job:ps/replica:2"), "/job:ps/replica:2/task:1");
  EXPECT_EQ(merged("/gpu:0", ""), "/device:GPU:0");
  EXPECT_EQ(merged("", "/gpu:0"), "/device:GPU:0");
  EXPECT_EQ(merged("/task:0", "/task:5"), "/task:5");
}

TEST(DeviceSpec, TypeAndIndexMergeSeparately) {
  const auto merged = [](const char* outer, const char* inner) {
    return DeviceSpec::parse(outer).merged_with(DeviceSpec::parse(inner)).str();
  };
  EXPECT_EQ(merged("/gpu:1", "/cpu"), "/device:CPU:1");
  EXPECT_EQ(merged("/gpu:1", "/device:*:2"), "/device:GPU:2");
  EXPECT_EQ(merged("/gpu:1", "/gpu:*"), "/device:GPU:1");
  EXPECT_EQ(merged("/gpu", "/device:*:3"), "/device:GPU:3");
}

TEST(DeviceSpec, MergingLeavesItsOperandsAlone) {
  const auto outer = DeviceSpec::parse("/gpu:1");
  const auto inner = DeviceSpec::parse("/cpu");
  outer.merged_with(inner);
  EXPECT_EQ(outer.str(), "/device:GPU:1");
  EXPECT_EQ(inner.str(), "/device:CPU:*");
}

TEST(DeviceSpec, ANameMatchesWhereEachOfItsPartsIsTheSame) {
  const auto full = DeviceSpec::parse("/job:worker/replica:0/task:1/device:GPU:2");
  for (const char* name : {"", "/gpu", "/gpu:2", "/device:*:2", "/job:worker", "/task:1/gpu"}) {
    EXPECT_TRUE(DeviceSpec::parse(name).matches(full)) << name;
  }
  for (const char* name : {"/cpu", "/gpu:0", "/device:*:1", "/job:ps", "/task:1/gpu:1"}) {
    EXPECT_FALSE(DeviceSpec::parse(name).matches(full)) << name;
  }
  EXPECT_FALSE(full.matches(DeviceSpec::parse("/gpu:2")));
}

}  // namespace
}  // namespace tandem
