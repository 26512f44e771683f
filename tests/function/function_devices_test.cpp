// Functions on one thread and on several, and on a device that has a queue; their random numbers.
#include <gtest/gtest.h>

#include "device/test/test_device.h"
#include "harness/fresh_devices.h"
#include "harness/small_tensors.h"
#include "harness/throws.h"
#include "op/instruction_hook.h"
#include "runtime/random_calls.h"
#include "tandem/error.h"
#include "tandem/function.h"
#include "tandem/ops.h"
#include "tandem/variable.h"

namespace tandem {
namespace {

using harness::rows_of_three;
using harness::throws;
using harness::vector;
using Floats = std::vector<float>;
using FunctionDevicesTest = harness::FreshDevices;

Tensor twice(const Tensor& x) { return x + x; }

TEST_F(FunctionDevicesTest, RandomNumbersDifferFromCallToCallAndFromDrawToDraw) {
  const auto f = function([](const Tensor& x) {
    return Tensors{random_normal(x.shape()), random_normal(x.shape()), random_uniform({6})};
  });
  const Tensors first = f(rows_of_three(2));
  const Tensors second = f(rows_of_three(2));
  EXPECT_EQ(f.trace_count(), 1);
  EXPECT_NE(first[0].to_vector<float>(), first[1].to_vector<float>());
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_NE(first[i].to_vector<float>(), second[i].to_vector<float>()) << i;
  }
}

/// CPU:0 has one thread, CPU:1 three.
class FunctionThreadsTest : public FunctionDevicesTest {
 protected:
  void SetUp() override {
    FunctionDevicesTest::SetUp();
    config::set_logical_cpus({{.threads = 1}, {.threads = 3}});
  }
};

TEST_F(FunctionThreadsTest, RandomNumbersAreTheSameOnOneThreadAndOnThree) {
  const auto f = function([](const Tensor& x) {
    return Tensors{random_normal(x.shape()), random_uniform({5, 7}, -1, 1)};
  });
  const auto run_on = [&](const char* name) {
    runtime::reset_random_calls(41);
    const auto scope = device(name);
    return f(rows_of_three(11));
  };
  const Tensors one = run_on("CPU:0");
  const Tensors three = run_on("CPU:1");
  EXPECT_EQ(three[0].device(), "/device:CPU:1");
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].to_vector<float>(), three[i].to_vector<float>()) << i;
  }
}

TEST_F(FunctionThreadsTest, ResultsAreTheSameOnOneThreadAndOnThreeForAnyNumberOfRows) {
  const Tensor w = Tensor::from<float>({1, -2, 3, 4, -5, 6, 7, 8, -9}, {3, 3});
  const auto f = function([&](const Tensor& x) {
    const Tensor h = relu(matmul(x, w));
    const Tensor square = matmul(h, x, {.transpose_a = true});
    return Tensors{matmul(h, square), reduce_sum(h, {.axes = {{0}}}), reduce_sum(h)};
  });
  for (int64_t rows : {1, 2, 3, 5, 8}) {
    Tensors results[2];
    for (int i : {0, 1}) {
      const auto scope = device(i == 0 ? "CPU:0" : "CPU:1");
      results[i] = f(rows_of_three(rows, -4));
    }
    for (size_t i = 0; i < results[0].size(); ++i) {
      EXPECT_EQ(results[0][i].to_vector<float>(), results[1][i].to_vector<float>())
          << rows << " rows, result " << i;
    }
  }
  EXPECT_EQ(f.trace_count(), 2);
}

TEST_F(FunctionThreadsTest, RunsWhereTheScopeElseItsVariablesSay) {
  Variable v;
  {
    const auto scope = device("CPU:1");
    v = Variable(vector({1, 2}));
  }
  const auto with_variable = function([&](const Tensor& x) { return x + v; });
  EXPECT_EQ(with_variable(vector({1, 2})).device(), "/device:CPU:1");
  const auto without = function(twice);
  EXPECT_EQ(without(vector({1, 2})).device(), "/device:CPU:0");
  const auto scope = device("CPU:1");
  EXPECT_EQ(without(vector({1, 2})).device(), "/device:CPU:1");
}

TEST_F(FunctionThreadsTest, AnErrorWithinARunIsThrownAndTheNextRunIsWhole) {
  const auto f = function([](const Tensor& x) { return reduce_sum(relu(x), {.axes = {{0}}}); });
  const auto scope = device("CPU:1");
  const Floats wanted = f(rows_of_three(6)).to_vector<float>();
  op::set_instruction_hook([](int, const std::string& op) {
    if (op == "reduce") throw DataLoss("a page is torn");
  });
  EXPECT_TRUE(throws<DataLoss>([&] { f(rows_of_three(6)); }, {"a page is torn"}));
  op::set_instruction_hook({});
  EXPECT_EQ(f(rows_of_three(6)).to_vector<float>(), wanted);
}

TEST_F(FunctionDevicesTest, RunsOnALateQueueWithMemoryOfItsOwn) {
  devices::test::add_test_gpu({.delay = std::chrono::microseconds(50)});
  const Variable v(vector({1, 2, 3}));
  const auto f = function([&](const Tensor& x) {
    v.assign_add(reduce_sum(x, {.axes = {{0}}}));
    return Tensors{x * v, x};
  });
  Tensor last;
  for (int64_t rows : {2, 1, 3}) last = f(rows_of_three(rows))[0];
  EXPECT_EQ(last.device(), "/device:GPU:0");
  EXPECT_EQ(v.value().to_vector<float>(), (Floats{19, 26, 33}));
  EXPECT_EQ(last.rows(0, 1).to_vector<float>(), (Floats{19, 52, 99}));
  EXPECT_EQ(f.trace_count(), 1);
}

}  // namespace
}  // namespace tandem
