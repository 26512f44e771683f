// When a function is traced, what its code sees then, and what comes of it.
#include <gtest/gtest.h>

#include "harness/fresh_devices.h"
#include "harness/small_tensors.h"
#include "harness/throws.h"
#include "tandem/error.h"
#include "tandem/function.h"
#include "tandem/gradient_tape.h"
#include "tandem/keras/optimizers.h"
#include "tandem/ops.h"
#include "tandem/variable.h"

namespace tandem {
namespace {

using harness::rows_of_three;
using harness::throws;
using harness::vector;
using Floats = std::vector<float>;
using TracingTest = harness::FreshDevices;

Tensor twice(const Tensor& x) { return x + x; }

TEST_F(TracingTest, IsTracedOncePerKindOfArguments) {
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

TEST_F(TracingTest, TheNumberOfRowsMayChangeWithoutANewTrace) {
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

TEST_F(TracingTest, ABatchWithoutRowsRuns) {
  const auto f = function([](const Tensor& x) { return Tensors{x * 2.0, reduce_sum(x)}; });
  const Tensors results = f(Tensor::from<float>({}, {0, 3}));
  EXPECT_EQ(results[0].shape(), (Shape{0, 3}));
  EXPECT_EQ(results[1].item<float>(), 0.0f);
  EXPECT_EQ(f(rows_of_three(1))[1].item<float>(), 6.0f);
  EXPECT_EQ(f.trace_count(), 1);
}

TEST_F(TracingTest, AnArgumentThatIsNotPartOfTheBatchKeepsItsShape) {
  const auto f = function([](const Tensor& x, const Tensor& w) { return matmul(x, w); });
  f(rows_of_three(2), rows_of_three(3));
  f(rows_of_three(5), rows_of_three(3));
  EXPECT_EQ(f.trace_count(), 1);
  EXPECT_TRUE(throws<InvalidArgument>([&] { f(rows_of_three(2), rows_of_three(4)); },
                                      {"matmul", "[2,3]", "[4,3]"}));
}

TEST_F(TracingTest, WhatDoesNotHoldForAnyNumberOfRowsIsTracedForThisOne) {
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

TEST_F(TracingTest, ASquareOfTheBatchIsTracedForItsRows) {
  const auto f = function([](const Tensor& x) { return matmul(x, x, {.transpose_b = true}); });
  for (int64_t rows : {2, 3}) {
    const Tensor x = rows_of_three(rows);
    EXPECT_EQ(f(x).to_vector<float>(), matmul(x, x, {.transpose_b = true}).to_vector<float>());
  }
}

TEST_F(TracingTest, TensorsOfTheOutsideAreConstants) {
  Tensor c = vector({10, 20});
  const auto f = function([&](const Tensor& x) { return x + c; });
  EXPECT_EQ(f(vector({1, 2})).to_vector<float>(), (Floats{11, 22}));
  c = vector({0, 0});
  EXPECT_EQ(f(vector({1, 2})).to_vector<float>(), (Floats{11, 22}));
}

TEST_F(TracingTest, TheBatchIsSymbolicWhileTracing) {
  std::string seen;
  const auto f = function([&](const Tensor& x) {
    seen = x.str();
    EXPECT_TRUE(x.is_symbolic());
    return x;
  });
  EXPECT_FALSE(f(rows_of_three(2)).is_symbolic());
  EXPECT_EQ(seen, "Tensor(shape=[None,3], dtype=float32, traced)");
}

TEST_F(TracingTest, ReadingATracedValueIsRefused) {
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

TEST_F(TracingTest, ATraceThatFailsLeavesEagerCodeAndTheNextCallAsTheyWere) {
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

TEST_F(TracingTest, ExplainListsTheInstructionsOfEachProgram) {
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

TEST_F(TracingTest, ExplainShowsWhatWasFusedAndNamesVariables) {
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
