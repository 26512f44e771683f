#include "device/test/test_device.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <future>

#include "device/transfer.h"
#include "harness/fresh_devices.h"
#include "harness/late.h"
#include "harness/throws.h"
#include "op/registry.h"
#include "tandem/error.h"
#include "tandem/function.h"
#include "tandem/ops.h"
#include "tensor/body.h"

namespace tandem::devices {
namespace {

using harness::issue_late;
using harness::throws;
using namespace std::chrono_literals;
using Floats = std::vector<float>;

class TestDeviceTest : public harness::FreshDevices {
 protected:
  static DevicePtr find(std::string_view name) { return find_device(DeviceSpec::parse(name)); }

  static Tensor on(std::string_view name, const Floats& values) {
    return on_device(Tensor::from(values, {static_cast<int64_t>(values.size())}), find(name));
  }
};

/// Asks the kernel, which answers with an error where we would fault.
bool host_can_read(const void* data) {
  int ends[2];
  if (pipe(ends) != 0) return true;
  const bool read = write(ends[1], data, 1) == 1;
  const bool fault = errno == EFAULT;
  close(ends[0]);
  close(ends[1]);
  return read || !fault;
}

TEST_F(TestDeviceTest, TheHostCannotReadItsMemoryButCopiesIt) {
  test::add_test_gpu();
  const Tensor x = on("/gpu:0", {1, 2, 3});
  EXPECT_EQ(x.device(), "/device:GPU:0");
  EXPECT_FALSE(x.body()->device()->space().host_readable());
  EXPECT_EQ(x.to_vector<float>(), (Floats{1, 2, 3}));
  EXPECT_FALSE(host_can_read(x.body()->data()));
  const float mine = 1;
  EXPECT_TRUE(host_can_read(&mine));
}

TEST_F(TestDeviceTest, WhatWasNeverWrittenIsNotZero) {
  test::add_test_gpu();
  const Tensor x(new_body(find("/gpu:0"), DType::int32, {2}));
  for (int32_t value : x.to_vector<int32_t>()) EXPECT_NE(value, 0);
}

TEST_F(TestDeviceTest, ALateQueueKeepsTheOrder) {
  test::add_test_gpu({.delay = 100us});
  auto& queue = find("/gpu:0")->queue();
  EXPECT_FALSE(queue.immediate());
  std::vector<int> order;
  for (int i = 0; i < 10; ++i) issue_late(queue, [&order, i] { order.push_back(i); });
  queue.record().wait(10s);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST_F(TestDeviceTest, AnEventIsReadyOnceTheWorkBeforeItHasRun) {
  test::add_test_gpu();
  auto& queue = find("/gpu:0")->queue();
  std::promise<void> gate;
  issue_late(queue, [wait = gate.get_future().share()] { wait.wait(); });
  const Event event = queue.record();
  EXPECT_FALSE(event.ready());
  gate.set_value();
  event.wait(10s);
  EXPECT_TRUE(event.ready());
  EXPECT_TRUE(Event().ready());
}

TEST_F(TestDeviceTest, AnOpReturnsBeforeItHasRun) {
  test::add_test_gpu();
  const Tensor x = on("/gpu:0", {-1, 2});
  std::promise<void> gate;
  issue_late(find("/gpu:0")->queue(), [wait = gate.get_future().share()] { wait.wait(); });
  const auto scope = device("/gpu:0");
  const Tensor y = relu(x) + x;
  EXPECT_FALSE(y.body()->ready.ready());
  gate.set_value();
  EXPECT_EQ(y.to_vector<float>(), (Floats{-1, 4}));
}

TEST_F(TestDeviceTest, AnErrorOfTheQueuesWorkSurfacesAtTheNextWait) {
  test::add_test_gpu();
  auto& queue = find("/gpu:0")->queue();
  bool later_work_ran = false;
  issue_late(queue, [] { throw DataLoss("the bus lost a bit"); });
  issue_late(queue, [&] { later_work_ran = true; });
  const Event failed = queue.record();
  EXPECT_TRUE(throws<DataLoss>([&] { failed.wait(10s); }, {"the bus lost a bit"}));
  EXPECT_TRUE(later_work_ran);
}

TEST_F(TestDeviceTest, TheFirstOfSeveralErrorsIsKept) {
  test::add_test_gpu();
  auto& queue = find("/gpu:0")->queue();
  issue_late(queue, [] { throw DataLoss("first"); });
  issue_late(queue, [] { throw Unavailable("second"); });
  const Event event = queue.record();
  EXPECT_TRUE(throws<DataLoss>([&] { event.wait(10s); }, {"first"}));
}

TEST_F(TestDeviceTest, ATensorWhoseWorkFailedThrowsEachTimeItIsRead) {
  test::add_test_gpu();
  const Tensor x = on("/gpu:0", {1});
  issue_late(find("/gpu:0")->queue(), [] { throw DataLoss("the bus lost a bit"); });
  const auto scope = device("/gpu:0");
  const Tensor y = relu(x);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(throws<DataLoss>([&] { y.to_vector<float>(); }, {"the bus lost a bit"}));
  }
}

TEST_F(TestDeviceTest, AStuckQueueIsADeadlineThatNamesTheDevice) {
  test::add_test_gpu({.stuck = true});
  config::set_wait_deadline(20ms);
  const Tensor x = on("/gpu:0", {1});
  EXPECT_TRUE(throws<DeadlineExceeded>([&] { x.to_vector<float>(); },
                                       {"/device:GPU:0", "did not finish", "0.02 s"}));
  restart();  // This queue will not end.
}

TEST_F(TestDeviceTest, AMissingKernelNamesTheOpTheDeviceAndTheKernelsThatExist) {
  test::add_test_gpu({.missing_kernels = {"relu"}});
  const Tensor x = on("/gpu:0", {1, 2});
  const auto scope = device("/gpu:0");
  EXPECT_TRUE(throws<NotFound>([&] { relu(x); }, {"relu(float32[2])", "/device:GPU:0",
                                                  "backend test", "cpu float32", "cpu float64"}));
  EXPECT_EQ((x + x).to_vector<float>(), (Floats{2, 4}));
}

TEST_F(TestDeviceTest, AMissingKernelIsFoundOutInFunctionsToo) {
  test::add_test_gpu({.missing_kernels = {"relu"}});
  const auto f = function([](const Tensor& x) { return relu(x * 2.0); });
  const auto scope = device("/gpu:0");
  EXPECT_TRUE(throws<NotFound>(
      [&] {
        f(on("/gpu:0", {1, 2}));
      },
      {"relu(float32[None])", "/device:GPU:0", "cpu float32"}));
}

TEST_F(TestDeviceTest, ADtypeWithoutAKernelIsNamed) {
  // As if the shape rule let it pass.
  const op::TensorType type{DType::float16, {2}};
  const op::Signature signature{&op::find_op("relu"), {type}, {type}, {}, {}};
  EXPECT_TRUE(
      throws<NotFound>([&] { op::Registry::instance().prepare(signature, *host_device(), 1); },
                       {"relu(float16[2])", "/device:CPU:0", "cpu float32"}));
}

TEST_F(TestDeviceTest, TwoOfThemCopyBetweenEachOther) {
  test::add_test_gpu({.index = 0, .delay = 500us});
  test::add_test_gpu({.index = 1});
  Tensor x = on("/gpu:0", {-1, 2, 3});
  for (int i = 0; i < 3; ++i) {
    const auto first = device("/gpu:0");
    x = x + x;
    const auto second = device("/gpu:1");
    x = relu(x);
    EXPECT_EQ(x.device(), "/device:GPU:1");
  }
  EXPECT_EQ(x.to_vector<float>(), (Floats{0, 16, 24}));
  EXPECT_NE(&find("/gpu:0")->space(), &find("/gpu:1")->space());
}

TEST_F(TestDeviceTest, AnErrorOnOneReachesWhatTheOtherComputesFromIt) {
  test::add_test_gpu({.index = 0});
  test::add_test_gpu({.index = 1});
  const Tensor x = on("/gpu:0", {1});
  issue_late(find("/gpu:0")->queue(), [] { throw DataLoss("the bus lost a bit"); });
  const Tensor y = on_device(x, find("/gpu:1"));
  EXPECT_TRUE(throws<DataLoss>([&] { y.to_vector<float>(); }, {"the bus lost a bit"}));
}

TEST_F(TestDeviceTest, ACpuWaitsForTheQueueItCopiesFrom) {
  test::add_test_gpu({.delay = 500us});
  const Tensor x = on("/gpu:0", {1, 2});
  const auto scope = device("/cpu:0");
  const Tensor y = x + x;
  EXPECT_EQ(y.device(), "/device:CPU:0");
  EXPECT_EQ(y.to_vector<float>(), (Floats{2, 4}));
}

TEST_F(TestDeviceTest, BytesAreCopiedBetweenAnyTwoSpaces) {
  test::add_test_gpu({.index = 0});
  test::add_test_gpu({.index = 1});
  const std::vector<DevicePtr> devices{find("/cpu:0"), find("/gpu:0"), find("/gpu:1")};
  const Floats values{1, 2, 3, 4};
  for (const auto& from : devices) {
    for (const auto& to : devices) {
      const auto source = new_body(from, DType::float32, {4});
      const auto target = new_body(to, DType::float32, {4});
      write_in_chunks(*from, source->data(), source->bytes(),
                      [&](char* chunk, size_t bytes) { std::memcpy(chunk, values.data(), bytes); });
      transfer(*to, target->data(), *from, source->data(), source->bytes(), source);
      EXPECT_EQ(Tensor(target).to_vector<float>(), values) << from->name() << " " << to->name();
    }
  }
}

}  // namespace
}  // namespace tandem::devices
