#include "tandem/tensor/host_data.h"

#include <gtest/gtest.h>

#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/tandem.h"

namespace tandem {
namespace {

using HostDataTest = harness::FreshDevices;

float first_of(const HostData& value) { return *static_cast<const float*>(value.data); }

TEST_F(HostDataTest, MemoryThatTheHostReadsIsNotCopied) {
  const float values[] = {1, 2};
  const Tensor tensor = Tensor::wrap(values, DType::float32, {2}, nullptr);
  EXPECT_EQ(host_data(tensor).data, values);
}

TEST_F(HostDataTest, TheValueOutlivesItsTensor) {
  HostData value;
  {
    const Tensor sum = Tensor::of({1.0f, 2.0f}) + Tensor::of({3.0f, 4.0f});
    value = host_data(sum);
  }
  const Tensor other = fill({2}, 9);  // Would take the memory if that were free.
  EXPECT_EQ(first_of(value), 4);
}

TEST_F(HostDataTest, ASnapshotOfAVariableStaysAsItWas) {
  const Variable variable(Tensor::of({1.0f, 2.0f}));
  const HostData before = host_data(variable.value());
  variable.assign(Tensor::of({5.0f, 6.0f}));
  EXPECT_EQ(first_of(before), 1);
  EXPECT_EQ(first_of(host_data(variable.value())), 5);
}

TEST_F(HostDataTest, ADevicesMemoryIsCopiedToTheHost) {
  config::add_test_device();
  const auto scope = device("/GPU:0");
  EXPECT_EQ(first_of(host_data(fill({3}, 7))), 7);
}

TEST_F(HostDataTest, AValueOfATraceHasNone) {
  const auto read = function([](const Tensor& x) {
    host_data(x);
    return x;
  });
  EXPECT_TRUE(harness::throws<FailedPrecondition>([&] { read(Tensor::of({1.0f})); }, {"reading"}));
}

}  // namespace
}  // namespace tandem
