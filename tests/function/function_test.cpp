#include "tandem/function.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "device/test/test_device.h"
#include "execution/execution.h"
#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "runtime/random_calls.h"
#include "tandem/control_flow.h"
#include "tandem/error.h"
#include "tandem/gradient_tape.h"
#include "tandem/keras/optimizers.h"
#include "tandem/ops.h"
#include "tandem/variable.h"
#include "tensor/body.h"

namespace tandem {
namespace {

using harness::throws;
using Floats = std::vector<float>;

using FunctionTest = harness::FreshDevices;

Tensor vector(const Floats& values) {
  return Tensor::from(values, {static_cast<int64_t>(values.size())});
}

/// Rows of three, counting from `first`.
Tensor rows_of_three(int64_t rows, float first = 1) {
  Floats values(static_cast<size_t>(rows) * 3);
  for (float& value : values) value = first++;
  return Tensor::from(values, {rows, 3});
}

Tensor twice(const Tensor& x) { return x + x; }

TEST_F(FunctionTest, IsTracedOncePerKindOfArguments) {
  const auto f = function(twice);
  EXPECT_EQ(f.trace_count(), 0);
  EXPECT_EQ(f(vector({1, 2})).to_vector<float>(), (Floats{2, 4}));
  EXPECT_EQ(f(vector({3, 4})).to_vector<float>(), (Floats{6, 8}));
  EXPECT_EQ(f.trace_count(), 1);
  EXPECT_EQ(f(Tensor::from<double>({1, 2}, {2})).to_vector<double>(), (std::vector<double>{2, 4}));
  EXPECT_EQ(f.trace_count(), 2);
  f(rows_of_three(2));
  EXPECT_EQ(f.trace_count(), 3);
  EXPECT_EQ(f(Tensor(4.0f)).item<float>(), 8.0f);
  EXPECT_EQ(f.trace_count(), 4);
  f(vector({1, 2}));
  f(Tensor::from<double>({1, 2}, {2}));
  f(rows_of_three(2));
  f(Tensor(1.0f));
  EXPECT_EQ(f.trace_count(), 4);
}

TEST_F(FunctionTest, TheNumberOfRowsMayChangeWithoutANewTrace) {
  const Tensor w = Tensor::from<float>({1, 0, 0, 1, 1, 1}, {3, 2});
  const auto f = function([&](const Tensor& x, const Tensor& y) {
    return Tensors{matmul(x, w), x * y, reduce_mean(y), reshape(x, {-1, 1})};
  });
  for (int64_t rows : {4, 1, 7, 2, 4}) {
    const Tensor x = rows_of_three(rows, 2);
    const Tensor y = rows_of_three(rows, 5);
    const Tensors results = f(x, y);
    EXPECT_EQ(results[0].to_vector<float>(), matmul(x, w).to_vector<float>());
    EXPECT_EQ(results[1].to_vector<float>(), (x * y).to_vector<float>());
    EXPECT_EQ(results[2].item<float>(), reduce_mean(y).item<float>());
    EXPECT_EQ(results[3].shape(), (Shape{3 * rows, 1}));
  }
  EXPECT_EQ(f.trace_count(), 1);
}

TEST_F(FunctionTest, ABatchWithoutRowsRuns) {
  const auto f = function([](const Tensor& x) { return Tensors{x * 2.0, reduce_sum(x)}; });
  const Tensors results = f(Tensor::from<float>({}, {0, 3}));
  EXPECT_EQ(results[0].shape(), (Shape{0, 3}));
  EXPECT_EQ(results[1].item<float>(), 0.0f);
  EXPECT_EQ(f(rows_of_three(1))[1].item<float>(), 6.0f);
  EXPECT_EQ(f.trace_count(), 1);
}

TEST_F(FunctionTest, AnArgumentThatIsNotPartOfTheBatchKeepsItsShape) {
  const auto f = function([](const Tensor& x, const Tensor& w) { return matmul(x, w); });
  f(rows_of_three(2), rows_of_three(3));
  f(rows_of_three(5), rows_of_three(3));
  EXPECT_EQ(f.trace_count(), 1);
  EXPECT_TRUE(throws<InvalidArgument>([&] { f(rows_of_three(2), rows_of_three(4)); },
                                      {"matmul", "[2,3]", "[4,3]"}));
}

TEST_F(FunctionTest, WhatDoesNotHoldForAnyNumberOfRowsIsTracedForThisOne) {
  const Tensor c = rows_of_three(4);
  const auto f = function([&](const Tensor& x) { return x + c; });
  EXPECT_EQ(f(rows_of_three(4)).to_vector<float>(), twice(c).to_vector<float>());
  EXPECT_EQ(f(rows_of_three(1)).shape(), (Shape{4, 3}));
  const int traces = f.trace_count();
  EXPECT_EQ(f(rows_of_three(4, 0)).to_vector<float>(),
            (c + rows_of_three(4, 0)).to_vector<float>());
  EXPECT_EQ(f.trace_count(), traces);
  EXPECT_TRUE(throws<InvalidArgument>([&] { f(rows_of_three(2)); }, {"add", "[2,3]", "[4,3]"}));
}

TEST_F(FunctionTest, ASquareOfTheBatchIsTracedForItsRows) {
  const auto f = function([](const Tensor& x) { return matmul(x, x, {.transpose_b = true}); });
  for (int64_t rows : {2, 3}) {
    const Tensor x = rows_of_three(rows);
    EXPECT_EQ(f(x).to_vector<float>(), matmul(x, x, {.transpose_b = true}).to_vector<float>());
  }
}

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

TEST_F(FunctionTest, TensorsOfTheOutsideAreConstants) {
  Tensor c = vector({10, 20});
  const auto f = function([&](const Tensor& x) { return x + c; });
  EXPECT_EQ(f(vector({1, 2})).to_vector<float>(), (Floats{11, 22}));
  c = vector({0, 0});
  EXPECT_EQ(f(vector({1, 2})).to_vector<float>(), (Floats{11, 22}));
}

TEST_F(FunctionTest, VariablesAreReadAnewAtEachCall) {
  const Variable v(vector({10, 20}));
  const auto f = function([&](const Tensor& x) { return x + v; });
  EXPECT_EQ(f(vector({1, 2})).to_vector<float>(), (Floats{11, 22}));
  v.assign(vector({0, 5}));
  EXPECT_EQ(f(vector({1, 2})).to_vector<float>(), (Floats{1, 7}));
}

TEST_F(FunctionTest, TheBatchIsSymbolicWhileTracing) {
  std::string seen;
  const auto f = function([&](const Tensor& x) {
    seen = x.str();
    EXPECT_TRUE(x.is_symbolic());
    return x;
  });
  EXPECT_FALSE(f(rows_of_three(2)).is_symbolic());
  EXPECT_EQ(seen, "Tensor(shape=[None,3], dtype=float32, traced)");
}

TEST_F(FunctionTest, ReadingATracedValueIsRefused) {
  const auto refused = [](const auto& read) {
    const auto f = function([&](const Tensor& x) {
      read(reduce_sum(x));
      return x;
    });
    return throws<FailedPrecondition>([&] { f(vector({1, 2})); }, {"while the function is traced"});
  };
  EXPECT_TRUE(refused([](const Tensor& sum) { sum.item<float>(); }));
  EXPECT_TRUE(refused([](const Tensor& sum) { sum.to_vector<float>(); }));
  EXPECT_TRUE(refused([](const Tensor& sum) { sum.device(); }));
  EXPECT_TRUE(refused([](const Tensor& sum) { reshape(sum, {1}).rows(0, 1); }));
  EXPECT_TRUE(refused([](const Tensor& sum) { const Variable v(sum); }));
}

TEST_F(FunctionTest, ATraceThatFailsLeavesEagerCodeAndTheNextCallAsTheyWere) {
  bool fails = true;
  const auto f = function([&](const Tensor& x) {
    if (fails) throw Unavailable("not today");
    return x + x;
  });
  EXPECT_TRUE(throws<Unavailable>([&] { f(vector({1, 2})); }, {"not today"}));
  EXPECT_EQ(twice(vector({1, 2})).to_vector<float>(), (Floats{2, 4}));
  fails = false;
  EXPECT_EQ(f(vector({1, 2})).to_vector<float>(), (Floats{2, 4}));
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

TEST_F(FunctionTest, WhatIsAssignedIsReadAfterwards) {
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

TEST_F(FunctionTest, TwoVariablesCanChangePlaces) {
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

TEST_F(FunctionTest, TracingAssignsNothing) {
  const Variable count(Tensor(int64_t{0}));
  const auto f = function([&] { count.assign_add(Tensor(int64_t{1})); });
  for (int i = 0; i < 3; ++i) f();
  EXPECT_EQ(count.value().item<int64_t>(), 3);
}

TEST_F(FunctionTest, RandomNumbersDifferFromCallToCallAndFromDrawToDraw) {
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
class FunctionThreadsTest : public FunctionTest {
 protected:
  void SetUp() override {
    FunctionTest::SetUp();
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

TEST_F(FunctionTest, WhatWasReadBeforeAStepStaysAsItWas) {
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

TEST_F(FunctionThreadsTest, CallsThatWriteVariablesTakeTurns) {
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

TEST_F(FunctionTest, RunsOnALateQueueWithMemoryOfItsOwn) {
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

TEST_F(FunctionTest, ExplainListsTheInstructionsOfEachProgram) {
  const auto f = function([](const Tensor& x) { return reduce_sum(relu(x), {.axes = {{0}}}); });
  EXPECT_EQ(f.explain(), "");
  f(rows_of_three(2));
  const std::string text = f.explain();
  for (const char* part :
       {"function(float32[None,3])", "on /device:CPU:0", "for 2 rows", "float32[2,3] = relu(%0)",
        "2 rows, tandem, 6 FLOP, 48 B", "-- barrier", "float32[3] = reduce(%"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
}

TEST_F(FunctionTest, ExplainShowsWhatWasFusedAndNamesVariables) {
  const Variable w(fill({3, 3}, 0.5), {.name = "weights"}), b(fill({3}, 1), {.name = "bias"});
  const keras::optimizers::Adam optimizer(0.1);
  const auto f = function([&](const Tensor& x) {
    GradientTape tape;
    const Tensor y = relu(matmul(x, w) + b);
    const Tensor loss = reduce_sum(exp(y * 2.0) - y);
    optimizer.apply_gradients(tape.gradient(loss, Variables{w, b}), {w, b});
    return loss;
  });
  f(rows_of_three(2));
  const std::string text = f.explain();
  const auto count = [&](const std::string& part) {
    int found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
      ++found;
    return found;
  };
  EXPECT_EQ(count("fused_matmul("), 1) << text;
  EXPECT_NE(text.find("epilogue=relu("), std::string::npos) << text;
  EXPECT_NE(text.find("exp("), std::string::npos) << text;
  EXPECT_EQ(count(" = exp("), 0) << text;       // But a part of a fused call.
  EXPECT_EQ(count("adam_update("), 1) << text;  // One call updates both variables.
  EXPECT_EQ(count("'weights'"), 4) << text;     // The product's, the update's with two slots.
  EXPECT_EQ(count("momentum of 'bias'"), 1) << text;
}

}  // namespace
}  // namespace tandem
