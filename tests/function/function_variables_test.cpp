// Variables that functions read and write.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "harness/fresh_devices.h"
#include "harness/small_tensors.h"
#include "tandem/control_flow.h"
#include "tandem/function.h"
#include "tandem/ops.h"
#include "tandem/variable.h"

namespace tandem {
namespace {

using harness::vector;
using Floats = std::vector<float>;
using FunctionVariablesTest = harness::FreshDevices;

TEST_F(FunctionVariablesTest, VariablesAreReadAnewAtEachCall) {
  const Variable v(vector({10, 20}));
  const auto f = function([&](const Tensor& x) { return x + v; });
  EXPECT_EQ(f(vector({1, 2})).to_vector<float>(), (Floats{11, 22}));
  v.assign(vector({0, 5}));
  EXPECT_EQ(f(vector({1, 2})).to_vector<float>(), (Floats{1, 7}));
}

TEST_F(FunctionVariablesTest, WhatIsAssignedIsReadAfterwards) {
  config::set_logical_cpus({{.threads = 2}});
  const Variable v(vector({1, 2, 3, 4}));
  const auto f = function([&](const Tensor& x) {
    const Tensor before = v.value();
    v.assign(x);
    const Tensor between = v.value();
    v.assign_add(before);
    return Tensors{before, between, v.value(), before * 10.0};
  });
  const Tensors results = f(vector({5, 6, 7, 8}));
  EXPECT_EQ(results[0].to_vector<float>(), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(results[1].to_vector<float>(), (Floats{5, 6, 7, 8}));
  EXPECT_EQ(results[2].to_vector<float>(), (Floats{6, 8, 10, 12}));
  EXPECT_EQ(results[3].to_vector<float>(), (Floats{10, 20, 30, 40}));
  EXPECT_EQ(v.value().to_vector<float>(), (Floats{6, 8, 10, 12}));
}

TEST_F(FunctionVariablesTest, TwoVariablesCanChangePlaces) {
  config::set_logical_cpus({{.threads = 2}});
  const Variable a(vector({1, 2}));
  const Variable b(vector({3, 4}));
  const auto swap = function([&] {
    const Tensor before = a.value();
    a.assign(b);
    b.assign(before);
  });
  swap();
  EXPECT_EQ(a.value().to_vector<float>(), (Floats{3, 4}));
  EXPECT_EQ(b.value().to_vector<float>(), (Floats{1, 2}));
  swap();
  EXPECT_EQ(a.value().to_vector<float>(), (Floats{1, 2}));
}

TEST_F(FunctionVariablesTest, TracingAssignsNothing) {
  const Variable count(Tensor(int64_t{0}));
  const auto f = function([&] { count.assign_add(Tensor(int64_t{1})); });
  for (int i = 0; i < 3; ++i) f();
  EXPECT_EQ(count.value().item<int64_t>(), 3);
}

TEST_F(FunctionVariablesTest, WhatWasReadBeforeAStepStaysAsItWas) {
  const Variable v(vector({1, 2})), other(vector({5, 6}));
  const auto step = function([&](const Tensor& x) {
    v.assign_add(x);
    return x + v + other;
  });
  const Tensor read = v.value();
  const Tensor untouched = other.value();
  EXPECT_EQ(step(vector({1, 1})).to_vector<float>(), (Floats{8, 10}));
  EXPECT_EQ(read.to_vector<float>(), (Floats{1, 2}));
  // A read that is itself an argument.
  EXPECT_EQ(step(v.value()).to_vector<float>(), (Floats{11, 15}));
  EXPECT_EQ(v.value().to_vector<float>(), (Floats{4, 6}));
  EXPECT_EQ(untouched.to_vector<float>(), (Floats{5, 6}));
  // An assign in a branch.
  const auto branch = function([&](const Tensor& x) {
    cond(
        greater(reduce_sum(x), Tensor(0.0f)), [&] { v.assign(x); }, [] {});
    return reduce_sum(x);
  });
  const Tensor before = v.value();
  branch(vector({9, 9}));
  EXPECT_EQ(before.to_vector<float>(), (Floats{4, 6}));
  EXPECT_EQ(v.value().to_vector<float>(), (Floats{9, 9}));
}

TEST_F(FunctionVariablesTest, CallsThatWriteVariablesTakeTurns) {
  const Variable sum(Tensor(0.0));
  const auto f = function([&](const Tensor& x) {
    sum.assign_add(reduce_sum(cast(x, DType::float64)));
    return x * x;
  });
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (float value : {1.0f, 2.0f, 3.0f}) {
    callers.emplace_back([&, value] {
      for (int i = 0; i < 20; ++i) {
        wrong += f(vector({value, value})).to_vector<float>() != Floats(2, value * value);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(sum.value().item<double>(), 240.0);
  EXPECT_EQ(f.trace_count(), 1);
}

}  // namespace
}  // namespace tandem
