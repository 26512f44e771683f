// What a function takes and returns.
#include "tandem/function.h"

#include <gtest/gtest.h>

#include "device/logical_device.h"
#include "harness/fresh_devices.h"
#include "harness/small_tensors.h"
#include "harness/throws.h"
#include "tandem/error.h"
#include "tandem/ops.h"
#include "tandem/variable.h"

namespace tandem {
namespace {

using harness::throws;
using harness::vector;
using Floats = std::vector<float>;
using FunctionTest = harness::FreshDevices;

Tensor twice(const Tensor& x) { return x + x; }

TEST_F(FunctionTest, ResultsCanBeArgumentsConstantsVariablesAndTheSameValueTwice) {
  const Tensor c = vector({7, 8});
  const Variable v(vector({5, 6}));
  const auto f = function([&](const Tensor& x) {
    const Tensor y = x * 3.0;
    return Tensors{x, c, v.value(), y, y, reshape(y, {-1, 1})};
  });
  const Tensor x = vector({1, 2});
  const Tensors results = f(x);
  ASSERT_EQ(results.size(), 6u);
  EXPECT_EQ(results[0].to_vector<float>(), (Floats{1, 2}));
  EXPECT_EQ(results[1].to_vector<float>(), (Floats{7, 8}));
  EXPECT_EQ(results[2].to_vector<float>(), (Floats{5, 6}));
  for (size_t i : {3, 4, 5}) EXPECT_EQ(results[i].to_vector<float>(), (Floats{3, 6}));
  EXPECT_EQ(results[5].shape(), (Shape{2, 1}));

  v.assign(vector({0, 0}));
  f(vector({9, 9}));
  EXPECT_EQ(results[0].to_vector<float>(), (Floats{1, 2}));
  EXPECT_EQ(results[2].to_vector<float>(), (Floats{5, 6}));
  EXPECT_EQ(results[4].to_vector<float>(), (Floats{3, 6}));
}

TEST_F(FunctionTest, ResultsThatAreHeldAreNotOverwrittenByLaterCalls) {
  const auto f = function(twice);
  Tensors held;
  for (float i = 0; i < 50; ++i) held.push_back(f(vector({i, -i})));
  for (float i = 0; i < 50; ++i) {
    EXPECT_EQ(held[static_cast<size_t>(i)].to_vector<float>(), (Floats{2 * i, -2 * i}));
  }
}

TEST_F(FunctionTest, CallsThatRepeatTakeNoNewMemory) {
  const auto f = function([](const Tensor& x) { return relu(matmul(x, x)) + x; });
  const Tensor x = fill({64, 64}, 0.5);
  f(x);
  f(x);
  const auto info = [] { return devices::host_device()->allocator().info(); };
  const uint64_t before = info().space_allocations;
  for (int i = 0; i < 5; ++i) f(x);
  EXPECT_EQ(info().space_allocations, before);
}

TEST_F(FunctionTest, AnEmptyResultIsRefused) {
  const auto f = function([](const Tensor&) { return Tensor(); });
  EXPECT_TRUE(throws<InvalidArgument>([&] { f(vector({1})); }, {"function", "empty Tensor"}));
}

TEST_F(FunctionTest, AnEmptyArgumentIsRefused) {
  const auto f = function(twice);
  EXPECT_TRUE(throws<FailedPrecondition>([&] { f(Tensor()); }, {"empty"}));
}

TEST_F(FunctionTest, AFunctionInsideAFunctionBecomesPartOfIt) {
  const Variable calls(Tensor(int64_t{0}));
  const auto inner = function([&](const Tensor& x) {
    calls.assign_add(Tensor(int64_t{1}));
    return x * x;
  });
  const auto outer = function([&](const Tensor& x) { return inner(x) + inner(x * 2.0); });
  EXPECT_EQ(outer(vector({1, 3})).to_vector<float>(), (Floats{5, 45}));
  EXPECT_EQ(outer(vector({2, 0})).to_vector<float>(), (Floats{20, 0}));
  EXPECT_EQ(calls.value().item<int64_t>(), 4);
  EXPECT_EQ(outer.trace_count(), 1);
  EXPECT_EQ(inner.trace_count(), 0);
  EXPECT_EQ(inner(vector({3})).to_vector<float>(), (Floats{9}));
}

TEST_F(FunctionTest, AFunctionMayReturnNothing) {
  const Variable v(vector({1, 2}));
  const auto f = function([&](const Tensor& x) { v.assign_add(x); });
  static_assert(std::is_void_v<decltype(f(Tensor()))>);
  f(vector({10, 20}));
  f(vector({10, 20}));
  EXPECT_EQ(v.value().to_vector<float>(), (Floats{21, 42}));
}

TEST_F(FunctionTest, AFunctionMayTakeNothing) {
  const Variable v(vector({1, 2}));
  const auto f = function([&] { return v * 2.0; });
  EXPECT_EQ(f().to_vector<float>(), (Floats{2, 4}));
  EXPECT_EQ(f().to_vector<float>(), (Floats{2, 4}));
  EXPECT_EQ(f.trace_count(), 1);
}

TEST_F(FunctionTest, AListOfResultsComesInItsOrderAndMayBeEmpty) {
  const auto split = function([](const Tensor& x) { return Tensors{relu(x), relu(x * -1.0)}; });
  const Tensors parts = split(vector({-1, 2}));
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].to_vector<float>(), (Floats{0, 2}));
  EXPECT_EQ(parts[1].to_vector<float>(), (Floats{1, 0}));
  const auto none = function([](const Tensor&) { return Tensors(); });
  EXPECT_TRUE(none(vector({1})).empty());
}

TEST_F(FunctionTest, OneResultIsAskedForOnlyWhereThereIsOne) {
  const FlatFunction two([](const Tensors& x) { return Tensors{x[0], x[0]}; });
  const Tensors arguments{vector({1, 2})};
  EXPECT_EQ(two(arguments).size(), 2u);
  EXPECT_TRUE(throws<InvalidArgument>([&] { two.single(arguments); }, {"2 results", "one"}));
}

}  // namespace
}  // namespace tandem
