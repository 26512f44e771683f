#include "harness/convnet.h"

#include <gtest/gtest.h>

#include "device/test/test_device.h"
#include "harness/fresh_devices.h"
#include "harness/without.h"

namespace tandem::harness {
namespace {

class ConvnetTest : public FreshDevices {};

/// The losses of a few steps on batches of several sizes, and then all weights.
template <class Step>
std::vector<double> trained(const Convnet<double>& model, const Step& step) {
  std::vector<double> numbers;
  for (const int64_t rows : {8, 3, 1, 8}) {
    numbers.push_back(step(images<double>(rows), classes(rows)).template item<double>());
  }
  for (const Variable& variable : model.variables) {
    const auto values = variable.value().to_vector<double>();
    numbers.insert(numbers.end(), values.begin(), values.end());
  }
  return numbers;
}

std::vector<double> eager() {
  const Convnet<double> model;
  return trained(model, [&](const Tensor& x, const Tensor& y) { return model.train_step(x, y); });
}

void expect_compiled(const std::vector<double>& wanted, const std::string& way) {
  const Convnet<double> model;
  const auto got = trained(model, model.compiled_step());
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], wanted[i], 1e-9) << way << ", number " << i;
  }
}

TEST_F(ConvnetTest, TrainsTheSameEagerCompiledUnfusedAndUnplanned) {
  const auto wanted = eager();
  expect_compiled(wanted, "fused");
  {
    const auto off = without_fusion();
    expect_compiled(wanted, "unfused");
  }
  const auto off = without_memory_planning();
  expect_compiled(wanted, "unplanned memory");
}

TEST_F(ConvnetTest, TrainsTheSameOnALateDevice) {
  const auto wanted = eager();
  restart();
  devices::test::add_test_gpu({.delay = std::chrono::microseconds(5)});
  expect_compiled(wanted, "late");
}

}  // namespace
}  // namespace tandem::harness
