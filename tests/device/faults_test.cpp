// What a command on a queue found wrong reaches all that is made of it, however late that is
// issued, and nothing else.
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "device/test/test_device.h"
#include "harness/fresh_devices.h"
#include "harness/late.h"
#include "harness/throws.h"
#include "tandem/error.h"
#include "tandem/ops.h"
#include "tandem/variable.h"
#include "tensor/body.h"
#include "tensor/store.h"

namespace tandem::devices {
namespace {

using namespace std::chrono_literals;
using harness::issue_late;
using harness::throws;
using Floats = std::vector<float>;

/// Two GPUs and the CPU.
class FaultsTest : public harness::FreshDevices {
 protected:
  void SetUp() override {
    restart();
    test::add_test_gpu({.index = 0});
    test::add_test_gpu({.index = 1});
  }

  static DevicePtr find(const char* name) { return find_device(DeviceSpec::parse(name)); }

  /// Rows of a table on GPU:0 at an index that it does not have.
  static Tensor bad_rows() {
    const auto scope = device("/GPU:0");
    return gather(fill({3, 2}, 1.0f, DType::float32), Tensor::from(std::vector<int32_t>{7}, {1}));
  }
  /// The same, once its error has been seen.
  static Tensor known_bad_rows() {
    const Tensor rows = bad_rows();
    EXPECT_TRUE(is_bad(rows));
    return rows;
  }
  static bool is_bad(const Tensor& tensor) {
    const auto result = throws<InvalidArgument>([&] { tensor.to_vector<float>(); }, {"gather: "});
    return static_cast<bool>(result);
  }
};

TEST_F(FaultsTest, WhatIsComputedFromABadTensorIsBadAlsoAfterItsErrorWasSeen) {
  const Tensor bad = known_bad_rows();
  const auto scope = device("/GPU:0");
  const Tensor sum = bad + bad;
  const Tensor sum_of_sum = reduce_sum(sum);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(is_bad(sum_of_sum));
    EXPECT_TRUE(is_bad(sum));
    EXPECT_TRUE(is_bad(reshape(bad, {2})));
    EXPECT_TRUE(is_bad(bad.rows(0, 1) * 2.0));
  }
  EXPECT_EQ(fill({2}, 3.0f, DType::float32).to_vector<float>(), (Floats{3, 3}));
}

TEST_F(FaultsTest, ACopyOfABadTensorIsBadAlsoAfterItsErrorWasSeen) {
  const Tensor bad = known_bad_rows();
  const Tensor copy = on_device(bad, find("/GPU:1"));
  EXPECT_TRUE(is_bad(copy));
  EXPECT_TRUE(is_bad(on_device(copy, find("/GPU:0"))));
  EXPECT_THROW(on_device(bad, find("/CPU:0")), InvalidArgument);
  const auto scope = device("/GPU:1");
  EXPECT_TRUE(is_bad(bad + 1.0));
  EXPECT_EQ(fill({2}, 3.0f, DType::float32).to_vector<float>(), (Floats{3, 3}));
}

TEST_F(FaultsTest, WhatWasComputedBeforeAFaultStaysGood) {
  const Tensor good = on_device(Tensor::from(Floats{1, 2}, {2}), find("/GPU:0"));
  known_bad_rows();
  EXPECT_EQ(on_device(good, find("/GPU:1")).to_vector<float>(), (Floats{1, 2}));
  known_bad_rows();
  EXPECT_EQ(on_device(good, find("/CPU:0")).to_vector<float>(), (Floats{1, 2}));
  known_bad_rows();
  find("/GPU:0")->queue().record().wait(10s);
  const auto scope = device("/GPU:0");
  EXPECT_EQ((good * 2.0).to_vector<float>(), (Floats{2, 4}));
}

TEST_F(FaultsTest, ABadTensorChangesNoVariableAlsoAfterItsErrorWasSeen) {
  for (const char* name : {"/GPU:0", "/GPU:1"}) {
    const auto scope = device(name);
    const Variable v(fill({2}, 1.0f, DType::float32));
    const Tensor bad = known_bad_rows();
    v.assign_add(reduce_sum(bad, {.axes = {{0}}}));
    EXPECT_TRUE(is_bad(v.value())) << name;
    EXPECT_EQ(v.value().to_vector<float>(), (Floats{1, 1})) << name;
    v.assign_add(fill({2}, 1.0f, DType::float32));
    EXPECT_EQ(v.value().to_vector<float>(), (Floats{2, 2})) << name;
    EXPECT_THROW(Variable(reduce_sum(bad)).value().item<float>(), InvalidArgument) << name;
  }
}

/// One thread hears of a fault, and settles it, while another makes a second queue wait for it.
TEST_F(FaultsTest, AQueueThatBeginsToWaitForAFaultWhileItIsSettledHasItToo) {
  Queue& first = find("/GPU:0")->queue();
  Queue& second = find("/GPU:1")->queue();
  issue_late(first, [] { throw DataLoss("the bus lost a bit"); });
  const Event bad = first.record();
  std::promise<void> gate;
  issue_late(second, [open = gate.get_future().share()] { open.wait(); });
  std::thread hearing;
  Event behind;
  first.submit([&] {  // The fault cannot be settled as long as this goes on.
    hearing = std::thread([&] { EXPECT_THROW(bad.wait(10s), DataLoss); });
    std::this_thread::sleep_for(50ms);
    second.wait(bad);
    behind = second.record();
  });
  std::this_thread::sleep_for(50ms);
  gate.set_value();
  EXPECT_THROW(behind.wait(10s), DataLoss);
  hearing.join();
  second.record().wait(10s);
}

TEST_F(FaultsTest, ThreadsThatHearOfFaultsWhileOthersIssueMissNone) {
  const DevicePtr gpus[] = {find("/GPU:0"), find("/GPU:1")};
  for (int round = 0; round < 50; ++round) {
    const Tensor x = on_device(Tensor::from(Floats{1}, {1}), gpus[0]);
    issue_late(gpus[0]->queue(), [] { throw DataLoss("the bus lost a bit"); });
    const auto scope = device("/GPU:0");
    const Tensor bad = x + x;
    std::thread hearing([&] { EXPECT_THROW(bad.to_vector<float>(), DataLoss); });
    const Tensor there = on_device(bad, gpus[1]);
    const Tensor here = on_device(there, gpus[0]) + bad;
    EXPECT_THROW(there.to_vector<float>(), DataLoss) << round;
    EXPECT_THROW(here.to_vector<float>(), DataLoss) << round;
    hearing.join();
  }
}

TEST_F(FaultsTest, ManyFaultsAreRemembered) {
  std::vector<Tensor> bad;
  for (int i = 0; i < 100; ++i) bad.push_back(known_bad_rows());
  for (const Tensor& each : bad) EXPECT_TRUE(is_bad(each));
}

TEST_F(FaultsTest, WritingAVariableFromTheHostIsAnErrorWhileAFaultStands) {
  const auto scope = device("/GPU:0");
  const Variable v(fill({2}, 1.0f, DType::float32));
  v.value().to_vector<float>();
  const Tensor bad = bad_rows();
  const auto write = [&] { write_range(v.body()->range, Tensor::from(Floats{5, 5}, {2})); };
  EXPECT_TRUE(throws<InvalidArgument>(write, {"gather: "}));
  EXPECT_EQ(v.value().to_vector<float>(), (Floats{1, 1}));
  EXPECT_TRUE(is_bad(bad_rows()));
  write();  // Somebody has heard of it, so nothing stands.
  EXPECT_EQ(v.value().to_vector<float>(), (Floats{5, 5}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] { write_range(v.body()->range, reduce_sum(bad, {.axes = {{0}}})); }, {"gather: "}));
  EXPECT_EQ(v.value().to_vector<float>(), (Floats{5, 5}));
}

TEST_F(FaultsTest, AVariableThatIsCreatedWhileAFaultStandsHasItsValue) {
  const Tensor bad = bad_rows();
  const auto scope = device("/GPU:0");
  const Variable v(Tensor::from(Floats{1, 2}, {2}));
  EXPECT_TRUE(is_bad(bad));
  EXPECT_EQ(v.value().to_vector<float>(), (Floats{1, 2}));
}

}  // namespace
}  // namespace tandem::devices
