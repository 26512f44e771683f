#include "op/registry.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "device/test/test_device.h"
#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/error.h"

namespace tandem::op {
namespace {

using harness::throws;

TensorTypes same_as_input(const Signature& s) { return s.inputs; }
Tensors pass_on(const Call&, const Tensors& gradients) { return gradients; }

OpDef definition(const char* name) {
  return {.name = name, .infer = same_as_input, .split = split_rows, .no_gradient = true};
}

/// Says what it was prepared for.
class Probe final : public Executable {
 public:
  Probe(const char* provider, int parts) : provider_(provider), parts_(parts) {}
  void run(const Launch&) const override {}
  size_t workspace_bytes() const override { return static_cast<size_t>(parts_); }
  const char* provider() const override { return provider_; }

 private:
  const char* provider_;
  int parts_;
};

PrepareFn probe(const char* provider) {
  return [=](const Signature&, int parts) { return std::make_shared<Probe>(provider, parts); };
}

class RegistryTest : public harness::FreshDevices {
 protected:
  Signature call(const char* op, DType dtype) const {
    return {&registry_.op(op), {{dtype, {2, 3}}}, {{dtype, {2, 3}}}, {}, {}};
  }
  static devices::DevicePtr find(std::string_view name) {
    return devices::find_device(DeviceSpec::parse(name));
  }

  Registry registry_;
};

TEST_F(RegistryTest, AnOpIsFoundByItsName) {
  registry_.add(definition("twist"));
  OpDef smooth = definition("smooth");
  smooth.no_gradient = false;
  smooth.gradient = pass_on;
  registry_.add(smooth);
  EXPECT_EQ(registry_.op("twist").name, "twist");
  EXPECT_TRUE(registry_.op("smooth").gradient);
  EXPECT_NE(registry_.op("twist").id, registry_.op("smooth").id);
  EXPECT_EQ(registry_.op_names(), (std::vector<std::string>{"smooth", "twist"}));
}

TEST_F(RegistryTest, AnOpWithNeitherAGradientNorTheMarkThatItHasNoneIsRefused) {
  OpDef op = definition("twist");
  op.no_gradient = false;
  EXPECT_TRUE(
      throws<InvalidArgument>([&] { registry_.add(op); }, {"'twist'", "no_gradient", "neither"}));
  EXPECT_TRUE(registry_.op_names().empty());
}

TEST_F(RegistryTest, AnOpWithBothIsRefused) {
  OpDef op = definition("twist");
  op.gradient = pass_on;
  EXPECT_TRUE(
      throws<InvalidArgument>([&] { registry_.add(op); }, {"'twist'", "no_gradient", "both"}));
  EXPECT_TRUE(registry_.op_names().empty());
}

TEST_F(RegistryTest, AnOpRegisteredTwiceIsRefusedAndTheFirstStays) {
  registry_.add(definition("twist"));
  const OpDef* first = &registry_.op("twist");
  EXPECT_TRUE(throws<InvalidArgument>([&] { registry_.add(definition("twist")); },
                                      {"'twist'", "registered twice"}));
  EXPECT_EQ(&registry_.op("twist"), first);
  EXPECT_EQ(registry_.op("twist").id, 0);
}

TEST_F(RegistryTest, AnUnknownOpIsNotFound) {
  EXPECT_TRUE(throws<NotFound>([&] { registry_.op("twist"); }, {"op 'twist' does not exist"}));
  EXPECT_TRUE(throws<NotFound>([] { find_op("twist"); }, {"op 'twist' does not exist"}));
}

TEST_F(RegistryTest, AKernelForAnUnknownOpIsRefused) {
  EXPECT_TRUE(
      throws<NotFound>([&] { registry_.add_kernel("twist", "cpu", {DType::float32}, probe("a")); },
                       {"op 'twist' does not exist"}));
}

TEST_F(RegistryTest, TheKernelOfTheBackendAndDtypeIsPreparedForTheThreads) {
  registry_.add(definition("twist"));
  registry_.add_kernel("twist", "cpu", {DType::float32}, probe("floats"));
  registry_.add_kernel("twist", "cpu", {DType::int32, DType::int64}, probe("integers"));
  registry_.add_kernel("twist", "cuda", {DType::float32}, probe("elsewhere"));
  const auto cpu = find("/cpu:0");
  EXPECT_STREQ(registry_.prepare(call("twist", DType::float32), *cpu, 1)->provider(), "floats");
  EXPECT_STREQ(registry_.prepare(call("twist", DType::int64), *cpu, 1)->provider(), "integers");
  EXPECT_EQ(registry_.prepare(call("twist", DType::int64), *cpu, 3)->workspace_bytes(), 3u);
  EXPECT_TRUE(registry_.has_kernel(call("twist", DType::int32), *cpu));
  EXPECT_FALSE(registry_.has_kernel(call("twist", DType::float64), *cpu));
}

TEST_F(RegistryTest, AMissingKernelNamesTheCallTheDeviceAndWhatExists) {
  registry_.add(definition("twist"));
  registry_.add(definition("other"));
  registry_.add_kernel("twist", "cpu", {DType::float32, DType::int32}, probe("a"));
  registry_.add_kernel("twist", "cuda", {DType::float64}, probe("b"));
  registry_.add_kernel("other", "cpu", {DType::boolean}, probe("c"));
  const auto cpu = find("/cpu:0");
  EXPECT_TRUE(throws<NotFound>([&] { registry_.prepare(call("twist", DType::float64), *cpu, 1); },
                               {"twist(float64[2,3])", "/device:CPU:0", "backend cpu",
                                "kernels exist for cpu float32, cpu int32, cuda float64"}));
}

TEST_F(RegistryTest, AnOpWithoutAnyKernelSaysSo) {
  registry_.add(definition("twist"));
  EXPECT_TRUE(throws<NotFound>(
      [&] { registry_.prepare(call("twist", DType::float32), *find("/cpu:0"), 1); },
      {"twist(float32[2,3])", "kernels exist for no backend"}));
}

TEST_F(RegistryTest, ADeviceCanLackAKernelThatItsBackendHas) {
  devices::test::add_test_gpu({.missing_kernels = {"twist"}});
  registry_.add(definition("twist"));
  registry_.add_kernel("twist", "cpu", {DType::float32}, probe("a"));
  EXPECT_FALSE(registry_.has_kernel(call("twist", DType::float32), *find("/gpu:0")));
  EXPECT_TRUE(registry_.has_kernel(call("twist", DType::float32), *find("/cpu:0")));
}

TEST_F(RegistryTest, EveryOpOfTheLibraryHasAKernelOnTheCpu) {
  const auto& registry = Registry::instance();
  const auto cpu = find("/cpu:0");
  const std::vector<std::string> names = registry.op_names();
  for (const char* name : {"add", "matmul", "reduce", "assign", "adam_update", "all_reduce"}) {
    EXPECT_TRUE(std::ranges::find(names, name) != names.end()) << name;
  }
  for (const std::string& name : names) {
    if (name.starts_with("exchange_")) continue;  // Programs prepare these: they know the group.
    // Made for devices with queues alone, which copy.
    if (name == "join_start" || name == "join_finish") continue;
    const auto has_kernel = [&](DType dtype) {
      const TensorType type{dtype, {2, 3}};
      return registry.has_kernel({&registry.op(name), {type}, {type}, {}, {}}, *cpu);
    };
    EXPECT_TRUE(has_kernel(DType::float32) || has_kernel(DType::boolean) ||
                has_kernel(DType::int32) || has_kernel(DType::int64) || has_kernel(DType::float64))
        << name;
  }
}

}  // namespace
}  // namespace tandem::op
