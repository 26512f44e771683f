#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "device/test/test_device.h"
#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/error.h"
#include "tandem/ops.h"
#include "tandem/variable.h"
#include "tensor/body.h"

namespace tandem {
namespace {

using harness::throws;
using Floats = std::vector<float>;
using Doubles = std::vector<double>;

class EagerTest : public harness::FreshDevices {
 protected:
  /// Values without a pattern that a wrong part could repeat.
  static Tensor scattered(const Shape& shape) {
    Doubles values(static_cast<size_t>(shape.count()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<double>(i * i));
    return Tensor::from(values, shape);
  }
  static Tensor pair() { return Tensor::from<float>({1, 2}, {2}); }
};

TEST_F(EagerTest, RunsOnTheFirstGpuElseOnTheFirstCpu) {
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  EXPECT_EQ(relu(pair()).device(), "/device:CPU:0");
  restart();
  devices::test::add_test_gpu({.index = 0});
  devices::test::add_test_gpu({.index = 1});
  EXPECT_EQ(relu(pair()).device(), "/device:GPU:0");
}

TEST_F(EagerTest, UnlessToldOtherwiseRunsWhereAKernelExists) {
  devices::test::add_test_gpu({.missing_kernels = {"relu"}});
  const Tensor sum = pair() + pair();
  EXPECT_EQ(sum.device(), "/device:GPU:0");
  const Tensor positive = relu(sum);
  EXPECT_EQ(positive.device(), "/device:CPU:0");
  EXPECT_EQ(positive.to_vector<float>(), (Floats{2, 4}));
}

TEST_F(EagerTest, RunsWhereTheScopeSays) {
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  devices::test::add_test_gpu();
  for (const char* name : {"/device:CPU:1", "/device:GPU:0", "/device:CPU:0"}) {
    const auto scope = device(name);
    const Tensor result = pair() + pair();
    EXPECT_EQ(result.device(), name);
    EXPECT_EQ(result.to_vector<float>(), (Floats{2, 4}));
  }
}

TEST_F(EagerTest, AScopeThatNamesNoDeviceThatExistsIsNotFoundAtTheFirstOp) {
  const auto scope = device("/gpu:3");
  EXPECT_TRUE(
      throws<NotFound>([] { relu(pair()); }, {"'/device:GPU:3' does not exist", "/device:CPU:0"}));
}

TEST_F(EagerTest, VariablesAreReadAndAssignedWhereTheyLive) {
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  devices::test::add_test_gpu();
  Variable v;
  {
    const auto scope = device("/cpu:1");
    v = Variable(pair());
  }
  EXPECT_EQ(v.value().device(), "/device:CPU:1");
  v.assign_add(pair());
  EXPECT_EQ(v.value().device(), "/device:CPU:1");
  EXPECT_EQ(relu(v).device(), "/device:GPU:0");
  EXPECT_EQ(relu(v).to_vector<float>(), (Floats{2, 4}));
}

TEST_F(EagerTest, ANullScopeLeavesThePlaceOpen) {
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  const auto second = device("/cpu:1");
  const auto open = device(nullptr);
  EXPECT_EQ(relu(pair()).device(), "/device:CPU:0");
}

TEST_F(EagerTest, ThePreparedKernelOfACallServesOtherValues) {
  for (float value : {1.0f, -2.0f, 3.0f}) {
    const Tensor x = Tensor::from<float>({value, -value}, {2});
    EXPECT_EQ((x + x).to_vector<float>(), (Floats{2 * value, -2 * value}));
    EXPECT_EQ(relu(x).to_vector<float>(), (Floats{std::max(value, 0.f), std::max(-value, 0.f)}));
  }
}

TEST_F(EagerTest, CallsThatDifferInOneThingOnlyArePreparedApart) {
  const Tensor a = Tensor::from<float>({1, 2, 3, 4}, {2, 2});
  const Tensor b = Tensor::from<float>({5, 6, 7, 8}, {2, 2});
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(matmul(a, b).to_vector<float>(), (Floats{19, 22, 43, 50}));
    EXPECT_EQ(matmul(a, b, {.transpose_a = true}).to_vector<float>(), (Floats{26, 30, 38, 44}));
    EXPECT_EQ(matmul(a, b, {.transpose_b = true}).to_vector<float>(), (Floats{17, 23, 39, 53}));
    EXPECT_EQ(reduce_sum(a, {.axes = {{0}}}).to_vector<float>(), (Floats{4, 6}));
    EXPECT_EQ(reduce_sum(a, {.axes = {{1}}}).to_vector<float>(), (Floats{3, 7}));
    EXPECT_EQ(reduce_mean(a, {.axes = {{1}}}).to_vector<float>(), (Floats{1.5, 3.5}));
    EXPECT_EQ(fill({2}, 1).to_vector<float>(), (Floats{1, 1}));
    EXPECT_EQ(fill({2}, 2).to_vector<float>(), (Floats{2, 2}));
    EXPECT_EQ(fill({1, 2}, 2).shape(), (Shape{1, 2}));
    EXPECT_EQ(fill({2}, 2, DType::int32).to_vector<int32_t>(), (std::vector<int32_t>{2, 2}));
    EXPECT_EQ((a - b).to_vector<float>(), (Floats{-4, -4, -4, -4}));
    EXPECT_EQ((b - a).to_vector<float>(), (Floats{4, 4, 4, 4}));
  }
}

TEST_F(EagerTest, MoreSignaturesThanAreKeptStillRun) {
  for (int64_t size = 1; size <= 4200; ++size) {
    ASSERT_EQ(fill({size}, 3).rows(size - 1, size).item<float>(), 3.0f);
  }
  EXPECT_EQ(fill({2}, 3).to_vector<float>(), (Floats{3, 3}));
}

/// CPU:0 has one thread, CPU:1 three.
class EagerThreadsTest : public EagerTest {
 protected:
  void SetUp() override {
    EagerTest::SetUp();
    config::set_logical_cpus({{.threads = 1}, {.threads = 3}});
  }

  template <class F>
  static Doubles run_on(const char* name, const F& f) {
    const auto scope = device(name);
    const Tensor result = f();
    EXPECT_EQ(result.device(), std::string("/device:") + name);
    return result.to_vector<double>();
  }
};

TEST_F(EagerThreadsTest, LargeElementwiseCallsAreTheSameOnOneThreadAndOnThree) {
  const Tensor x = scattered({500, 301});
  const Tensor row = scattered({301});
  const auto f = [&] { return relu(x * row) - x; };
  const Doubles one = run_on("CPU:0", f);
  EXPECT_EQ(one, run_on("CPU:1", f));
  EXPECT_NE(one.back(), 0.0);
}

TEST_F(EagerThreadsTest, LargeProductsAreTheSameOnOneThreadAndOnThree) {
  const Tensor a = scattered({91, 70});
  const Tensor b = scattered({70, 53});
  const auto f = [&] { return matmul(a, b); };
  const Doubles one = run_on("CPU:0", f);
  const Doubles three = run_on("CPU:1", f);
  ASSERT_EQ(one.size(), three.size());
  for (size_t i = 0; i < one.size(); ++i) ASSERT_NEAR(one[i], three[i], 1e-12) << i;
}

TEST_F(EagerThreadsTest, LargeReductionsAreTheSameOnOneThreadAndOnThree) {
  const Tensor x = scattered({700, 301});
  for (int axis : {0, 1}) {
    const auto f = [&] { return reduce_sum(x, {.axes = {{axis}}}); };
    const Doubles one = run_on("CPU:0", f);
    const Doubles three = run_on("CPU:1", f);
    ASSERT_EQ(one.size(), three.size());
    for (size_t i = 0; i < one.size(); ++i) ASSERT_NEAR(one[i], three[i], 1e-10) << i;
  }
}

TEST_F(EagerThreadsTest, LargeVariablesAreReadAndAssignedByAllThreads) {
  const auto scope = device("CPU:1");
  const Tensor x = scattered({500, 301});
  const Variable v(x);
  v.assign_add(x);
  EXPECT_EQ(v.value().to_vector<double>(), (x + x).to_vector<double>());
}

TEST_F(EagerThreadsTest, CallersOfOneDeviceTakeTurns) {
  const Tensor x = scattered({500, 301});
  const Doubles wanted = run_on("CPU:0", [&] { return x + x; });
  std::vector<Doubles> results(3);
  std::vector<std::thread> callers;
  for (Doubles& result : results) {
    callers.emplace_back([&] {
      for (int i = 0; i < 5; ++i) result = run_on("CPU:1", [&] { return x + x; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const Doubles& result : results) EXPECT_EQ(result, wanted);
}

TEST_F(EagerTest, OperandsOfTwoDtypesAreRefusedAndBothAreNamed) {
  const Tensor floats = pair();
  const Tensor integers = Tensor::from<int32_t>({1, 2}, {2});
  EXPECT_TRUE(throws<InvalidArgument>([&] { floats + integers; },
                                      {"add:", "float32[2]", "int32[2]", "cast"}));
  EXPECT_TRUE(
      throws<InvalidArgument>([&] { integers* floats; }, {"mul:", "int32[2]", "float32[2]"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { equal(floats, integers); }, {"equal:"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        matmul(fill({2, 2}, 1), fill({2, 2}, 1, DType::float64));
      },
      {"matmul:", "float32[2,2]", "float64[2,2]"}));
}

TEST_F(EagerTest, DtypesThatAnOpDoesNotTakeAreRefused) {
  const Tensor integers = Tensor::from<int32_t>({1, 2, 3, 4}, {2, 2});
  EXPECT_TRUE(throws<InvalidArgument>([&] { matmul(integers, integers); },
                                      {"matmul:", "int32", "float32 and float64"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { reduce_mean(integers); }, {"reduce_mean:", "int32"}));
}

TEST_F(EagerTest, ShapesThatDoNotFitAreRefusedAndBothAreNamed) {
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        fill({2, 3}, 1) + fill({2, 4}, 1);
      },
      {"add:", "[2,3]", "[2,4]"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        matmul(fill({4, 3}, 1), fill({5, 2}, 1));
      },
      {"matmul: inner sizes differ, [4,3] and [5,2]"}));
}

TEST_F(EagerTest, AReshapeIsTheSameMemory) {
  const Tensor x = Tensor::from({1.f, 2.f, 3.f, 4.f}, {2, 2});
  const Tensor flat = reshape(x, {4});
  EXPECT_EQ(flat.body()->data(), x.body()->data());
  EXPECT_EQ(flat.to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(x.shape(), Shape({2, 2}));
}

}  // namespace
}  // namespace tandem
