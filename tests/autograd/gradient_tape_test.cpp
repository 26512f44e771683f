#include "tandem/gradient_tape.h"

#include <gtest/gtest.h>

#include <thread>

#include "device/test/test_device.h"
#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/error.h"
#include "tandem/function.h"
#include "tandem/ops.h"

namespace tandem {
namespace {

using harness::throws;
using Doubles = std::vector<double>;

using GradientTapeTest = harness::FreshDevices;

Tensor matrix(const Doubles& values, int64_t columns) {
  return Tensor::from(values, {static_cast<int64_t>(values.size()) / columns, columns});
}

/// The derivative of the sum of f(x) by x.
template <class F>
Tensor derivative(const F& f, const Tensor& x) {
  GradientTape tape;
  tape.watch(x);
  return tape.gradient(f(x), Tensors{x})[0];
}

template <class F>
Doubles derivatives(const F& f, const Tensor& x) {
  const Tensor gradient = derivative(f, x);
  EXPECT_EQ(gradient.shape(), x.shape());
  return gradient.to_vector<double>();
}

TEST_F(GradientTapeTest, TheDerivativeOfASquareIsTwiceItsRoot) {
  EXPECT_EQ(derivative([](const Tensor& x) { return x * x; }, Tensor(3.0)).item<double>(), 6.0);
}

TEST_F(GradientTapeTest, SumsDifferencesAndProductsFollowTheirRules) {
  const Tensor x = Tensor::from<double>({1, 2}, {2});
  const Tensor c = Tensor::from<double>({5, 7}, {2});
  EXPECT_EQ(derivatives([&](const Tensor& v) { return v + c; }, x), (Doubles{1, 1}));
  EXPECT_EQ(derivatives([&](const Tensor& v) { return v - c; }, x), (Doubles{1, 1}));
  EXPECT_EQ(derivatives([&](const Tensor& v) { return c - v; }, x), (Doubles{-1, -1}));
  EXPECT_EQ(derivatives([&](const Tensor& v) { return v * c; }, x), (Doubles{5, 7}));
  EXPECT_EQ(derivatives([&](const Tensor& v) { return c * v; }, x), (Doubles{5, 7}));
}

TEST_F(GradientTapeTest, WhatWasRepeatedIsSummedBack) {
  const Tensor row = Tensor::from<double>({1, 2}, {2});
  const Tensor column = matrix({1, 2, 3}, 1);
  const Tensor weights = matrix({1, 2, 3, 4, 5, 6}, 2);
  EXPECT_EQ(derivatives([&](const Tensor& v) { return v * weights; }, row), (Doubles{9, 12}));
  EXPECT_EQ(derivatives([&](const Tensor& v) { return weights * v; }, column), (Doubles{3, 7, 11}));
  EXPECT_EQ(derivatives([&](const Tensor& v) { return weights - v; }, Tensor(1.0)), (Doubles{-6}));
  EXPECT_EQ(derivatives(
                [&](const Tensor& v) {
                  return weights * broadcast_to(v, {3, 2});
                },
                row),
            (Doubles{9, 12}));
}

TEST_F(GradientTapeTest, AProductOfMatricesFollowsItsRuleForBothSides) {
  const Tensor a = matrix({1, 2, 3, 4, 5, 6}, 3);        // [2,3]
  const Tensor b = matrix({1, 0, 2, 1, 0, 3}, 2);        // [3,2]
  const Tensor at = matrix({1, 4, 2, 5, 3, 6}, 2);       // [3,2]
  const Tensor bt = matrix({1, 2, 0, 0, 1, 3}, 3);       // [2,3]
  const Tensor weights = matrix({1, 10, 100, 1000}, 2);  // The weights of the product's elements.
  const Doubles by_a{1, 12, 30, 100, 1200, 3000};
  const Doubles by_b{401, 4010, 502, 5020, 603, 6030};
  const auto product = [&](const Tensor& l, const Tensor& r, MatmulOptions options) {
    return matmul(l, r, options) * weights;
  };
  EXPECT_EQ(derivatives([&](const Tensor& v) { return product(v, b, {}); }, a), by_a);
  EXPECT_EQ(derivatives([&](const Tensor& v) { return product(a, v, {}); }, b), by_b);
  EXPECT_EQ(derivatives([&](const Tensor& v) { return product(v, bt, {.transpose_b = true}); }, a),
            by_a);
  EXPECT_EQ(derivatives([&](const Tensor& v) { return product(at, v, {.transpose_a = true}); }, b),
            by_b);
  EXPECT_EQ(derivatives([&](const Tensor& v) { return product(v, b, {.transpose_a = true}); }, at),
            (Doubles{1, 100, 12, 1200, 30, 3000}));
  EXPECT_EQ(derivatives([&](const Tensor& v) { return product(a, v, {.transpose_b = true}); }, bt),
            (Doubles{401, 502, 603, 4010, 5020, 6030}));
}

TEST_F(GradientTapeTest, ReluPassesOnWhatItLetThrough) {
  EXPECT_EQ(derivatives([](const Tensor& v) { return relu(v) * 3.0; }, matrix({-1, 2, -3, 4}, 2)),
            (Doubles{0, 3, 0, 3}));
}

TEST_F(GradientTapeTest, ReductionsSpreadTheirGradient) {
  const Tensor x = matrix({1, 2, 3, 4, 5, 6}, 2);
  const Tensor weights = Tensor::from<double>({1, 10, 100}, {3});
  EXPECT_EQ(derivatives([](const Tensor& v) { return reduce_sum(v); }, x), Doubles(6, 1.0));
  EXPECT_EQ(derivatives([](const Tensor& v) { return reduce_mean(v) * 12.0; }, x), Doubles(6, 2.0));
  EXPECT_EQ(
      derivatives([&](const Tensor& v) { return reduce_sum(v, {.axes = {{1}}}) * weights; }, x),
      (Doubles{1, 1, 10, 10, 100, 100}));
  EXPECT_EQ(
      derivatives([&](const Tensor& v) { return reduce_mean(v, {.axes = {{-1}}}) * weights; }, x),
      (Doubles{0.5, 0.5, 5, 5, 50, 50}));
}

TEST_F(GradientTapeTest, ReshapesAndCastsPassGradientsOn) {
  const Tensor x = matrix({1, 2, 3, 4}, 2);
  const Tensor weights = Tensor::from<double>({1, 2, 3, 4}, {4});
  EXPECT_EQ(derivatives([&](const Tensor& v) { return reshape(v, {-1}) * weights; }, x),
            (Doubles{1, 2, 3, 4}));
  EXPECT_EQ(derivatives([](const Tensor& v) { return cast(v, DType::float32) * 3.0; }, x),
            Doubles(4, 3.0));
}

TEST_F(GradientTapeTest, CrossEntropyGivesProbabilitiesLessLabels) {
  const Tensor labels = matrix({1, 0, 0, 1}, 2);
  const auto loss = [&](const Tensor& v) { return softmax_cross_entropy_with_logits(labels, v); };
  EXPECT_EQ(derivatives(loss, matrix({0, 0, 3, 3}, 2)), (Doubles{-0.5, 0.5, 0.5, -0.5}));
}

TEST_F(GradientTapeTest, SeveralUsesOfATensorAccumulate) {
  const auto f = [](const Tensor& x) { return x * x + x * 3.0 - x; };
  EXPECT_EQ(derivative(f, Tensor(5.0)).item<double>(), 12.0);
}

TEST_F(GradientTapeTest, SeveralReadsOfAVariableAccumulate) {
  const Variable v(Tensor(5.0));
  GradientTape tape;
  const Tensor once = v.value();
  const Tensor y = once * once + v * 3.0;
  EXPECT_EQ(tape.gradient(y, Variables{v})[0].item<double>(), 13.0);
}

TEST_F(GradientTapeTest, AssignsBetweenReadsChangeWhatIsRead) {
  const Variable v(Tensor(5.0));
  GradientTape tape;
  const Tensor before = v * v;
  v.assign(Tensor(7.0));
  const Tensor y = before + v * v;
  EXPECT_EQ(y.item<double>(), 74.0);
  EXPECT_EQ(tape.gradient(y, Variables{v})[0].item<double>(), 24.0);
}

TEST_F(GradientTapeTest, SourcesAreAnsweredInTheirOrder) {
  const Variable a(Tensor(2.0));
  const Variable b(Tensor::from<double>({3, 4}, {2}));
  GradientTape tape;
  const Tensor y = a * b;
  const Tensors gradients = tape.gradient(y, Variables{b, a, b});
  ASSERT_EQ(gradients.size(), 3u);
  EXPECT_EQ(gradients[0].to_vector<double>(), (Doubles{2, 2}));
  EXPECT_EQ(gradients[1].item<double>(), 7.0);
  EXPECT_EQ(gradients[2].to_vector<double>(), (Doubles{2, 2}));
}

TEST_F(GradientTapeTest, WhatIsNotConnectedIsUndefined) {
  const Variable used(Tensor(2.0));
  const Variable read(Tensor(2.0));
  const Variable unread(Tensor(2.0));
  GradientTape tape;
  const Tensor other = read * 2.0;
  const Tensor y = used * used;
  const Tensors gradients = tape.gradient(y, Variables{used, read, unread});
  EXPECT_TRUE(gradients[0].defined());
  EXPECT_FALSE(gradients[1].defined());
  EXPECT_FALSE(gradients[2].defined());
}

TEST_F(GradientTapeTest, ATargetThatDependsOnNothingWatchedLeavesAllUndefined) {
  const Tensor x(2.0);
  GradientTape tape;
  const Tensor y = x * x;
  EXPECT_FALSE(tape.gradient(y, Tensors{x})[0].defined());
}

TEST_F(GradientTapeTest, OpsWithoutAGradientEndTheConnection) {
  const Tensor x = matrix({1, 2}, 2);
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor same = cast(equal(x, x), DType::float64);
  const Tensor rounded = cast(cast(x, DType::int32), DType::float64);
  EXPECT_FALSE(tape.gradient(same, Tensors{x})[0].defined());
  EXPECT_FALSE(tape.gradient(rounded, Tensors{x})[0].defined());
}

TEST_F(GradientTapeTest, TensorsAreTrackedFromTheMomentTheyAreWatched) {
  const Tensor x(3.0);
  GradientTape tape;
  const Tensor before = x * x;
  tape.watch(x);
  const Tensor after = x * 2.0;
  EXPECT_EQ(tape.gradient(before + after, Tensors{x})[0].item<double>(), 2.0);
}

TEST_F(GradientTapeTest, WhatLiesBetweenIsASourceToo) {
  const Tensor x(3.0);
  GradientTape tape;
  tape.watch(x);
  const Tensor square = x * x;
  const Tensor y = square * square;
  const Tensors gradients = tape.gradient(y, Tensors{square, x, y});
  EXPECT_EQ(gradients[0].item<double>(), 18.0);
  EXPECT_EQ(gradients[1].item<double>(), 108.0);
  EXPECT_EQ(gradients[2].item<double>(), 1.0);
}

TEST_F(GradientTapeTest, ASpentTapeIsRefusedAndThePersistentOneIsNamed) {
  const Variable v(Tensor(3.0));
  GradientTape tape;
  const Tensor y = v * v;
  EXPECT_EQ(tape.gradient(y, Variables{v})[0].item<double>(), 6.0);
  EXPECT_TRUE(throws<FailedPrecondition>([&] { tape.gradient(y, Variables{v}); },
                                         {"gradient tape", "already", "persistent"}));
}

TEST_F(GradientTapeTest, APersistentTapeAnswersAgainAndGoesOnRecording) {
  const Variable v(Tensor(3.0));
  GradientTape tape({.persistent = true});
  const Tensor square = v * v;
  EXPECT_EQ(tape.gradient(square, Variables{v})[0].item<double>(), 6.0);
  EXPECT_EQ(tape.gradient(square, Variables{v})[0].item<double>(), 6.0);
  const Tensor cube = square * v;
  EXPECT_EQ(tape.gradient(cube, Variables{v})[0].item<double>(), 27.0);
}

TEST_F(GradientTapeTest, APersistentTapeRecordsItsOwnGradientsWhereAskedTo) {
  const Tensor x(3.0);
  GradientTape tape({.persistent = true, .records_gradients = true});
  tape.watch(x);
  const Tensor first = tape.gradient(x * x * x, x);
  const Tensor second = tape.gradient(first, x);
  Tensor third;
  {
    const auto pause = tape.stop_recording();
    third = tape.gradient(second, x);
  }
  EXPECT_EQ(first.item<double>(), 27.0);
  EXPECT_EQ(second.item<double>(), 18.0);
  EXPECT_EQ(third.item<double>(), 6.0);
  EXPECT_FALSE(tape.gradient(third, x).defined());
}

TEST_F(GradientTapeTest, NestedTapesGiveHigherDerivatives) {
  const Tensor x(2.0);
  GradientTape third;
  third.watch(x);
  Tensor y2;
  {
    GradientTape second;
    second.watch(x);
    Tensor y1;
    {
      GradientTape first;
      first.watch(x);
      y1 = first.gradient(x * x * x, Tensors{x})[0];
    }
    y2 = second.gradient(y1, Tensors{x})[0];
  }
  const Tensor y3 = third.gradient(y2, Tensors{x})[0];
  EXPECT_EQ(y2.item<double>(), 12.0);
  EXPECT_EQ(y3.item<double>(), 6.0);
}

TEST_F(GradientTapeTest, SecondDerivativesByVariablesToo) {
  const Variable v(Tensor(2.0));
  GradientTape outer;
  Tensor slope;
  {
    GradientTape inner;
    slope = inner.gradient(v * v * v, Variables{v})[0];
  }
  EXPECT_EQ(slope.item<double>(), 12.0);
  EXPECT_EQ(outer.gradient(slope, Variables{v})[0].item<double>(), 12.0);
}

TEST_F(GradientTapeTest, VariablesThatAreNotTrainableAreWatchedOnlyIfAsked) {
  const Variable v(Tensor(3.0), {.trainable = false});
  GradientTape unasked;
  EXPECT_FALSE(unasked.gradient(v * v, Variables{v})[0].defined());
  GradientTape asked;
  asked.watch(v);
  EXPECT_EQ(asked.gradient(v * v, Variables{v})[0].item<double>(), 6.0);
}

TEST_F(GradientTapeTest, ATapeCanWatchOnlyTheVariablesItIsTold) {
  const Variable a(Tensor(3.0));
  const Variable b(Tensor(5.0));
  GradientTape tape({.watch_accessed_variables = false});
  tape.watch(b);
  const Tensors gradients = tape.gradient(a * b, Variables{a, b});
  EXPECT_FALSE(gradients[0].defined());
  EXPECT_EQ(gradients[1].item<double>(), 3.0);
}

TEST_F(GradientTapeTest, IntegersHaveNoDerivativeAndTheirTypeIsNamed) {
  const Tensor count = Tensor::from<int32_t>({1, 2}, {2});
  GradientTape tape;
  EXPECT_TRUE(throws<InvalidArgument>([&] { tape.watch(count); }, {"int32", "no derivative"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { tape.gradient(count, Tensors{count}); },
                                      {"int32", "no derivative"}));
}

TEST_F(GradientTapeTest, EachTapeRecordsItsOwnThread) {
  const Tensor x(3.0);
  GradientTape tape;
  tape.watch(x);
  Tensor elsewhere;
  std::thread([&] { elsewhere = x * x; }).join();
  const Tensor y = elsewhere + x;
  EXPECT_EQ(y.item<double>(), 12.0);
  EXPECT_EQ(tape.gradient(y, Tensors{x})[0].item<double>(), 1.0);
}

TEST_F(GradientTapeTest, ATapeThatIsGoneLeavesOthersRecording) {
  const Tensor x(3.0);
  GradientTape outer;
  outer.watch(x);
  {
    GradientTape inner;
    inner.watch(x);
    const Tensor unused = x * x;
  }
  EXPECT_EQ(outer.gradient(x * x, Tensors{x})[0].item<double>(), 6.0);
}

TEST_F(GradientTapeTest, ALateQueueChangesNothing) {
  devices::test::add_test_gpu({.delay = std::chrono::microseconds(50)});
  const Variable v(matrix({1, 2, 3, 4}, 2));
  GradientTape tape;
  const Tensor y = reduce_sum(matmul(v, v) * v);
  const Tensor gradient = tape.gradient(y, Variables{v})[0];
  EXPECT_EQ(gradient.device(), "/device:GPU:0");
  const Doubles on_gpu = gradient.to_vector<double>();
  restart();
  EXPECT_EQ(on_gpu, derivatives([](const Tensor& x) { return reduce_sum(matmul(x, x) * x); },
                                matrix({1, 2, 3, 4}, 2)));
}

/// Everything that has a gradient, in one loss.
Tensor loss_of(const Tensor& x, const Tensor& y, const Variables& v) {
  const Tensor hidden = relu(matmul(x, v[0]) + v[1]);
  const Tensor logits = matmul(hidden, v[0], {.transpose_b = true}) - v[2];
  const Tensor loss = compute_average_loss(softmax_cross_entropy_with_logits(y, logits));
  return loss + reduce_mean(v[0] * v[0]) + reduce_sum(reshape(v[1], {-1, 1}) * 0.01);
}

TEST_F(GradientTapeTest, WithinAFunctionGradientsAreTheSame) {
  config::set_logical_cpus({{.threads = 2}});
  const Variables variables{
      Variable(matrix({0.1, -0.2, 0.3, 0.4, -0.5, 0.6}, 2)),
      Variable(Tensor::from<double>({0.1, -0.1}, {2})),
      Variable(Tensor::from<double>({0.2, 0.3, -0.4}, {3})),
  };
  const auto gradients_of = [&](const Tensor& x, const Tensor& y) {
    GradientTape tape;
    return tape.gradient(loss_of(x, y, variables), variables);
  };
  const auto traced = function(gradients_of);
  for (int64_t rows : {4, 3, 1}) {
    const Tensor x = matrix({1, 2, 3, -4, 5, 6, 7, -8, 9, 1, 0, 2}, 3).rows(0, rows);
    const Tensor y = matrix({1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0}, 3).rows(0, rows);
    const Tensors wanted = gradients_of(x, y);
    const Tensors given = traced(x, y);
    ASSERT_EQ(given.size(), wanted.size());
    for (size_t i = 0; i < given.size(); ++i) {
      const Doubles a = wanted[i].to_vector<double>();
      const Doubles b = given[i].to_vector<double>();
      EXPECT_EQ(given[i].shape(), variables[i].shape());
      for (size_t k = 0; k < a.size(); ++k) EXPECT_NEAR(a[k], b[k], 1e-12) << i << " " << k;
    }
  }
  EXPECT_EQ(traced.trace_count(), 1);
}

TEST_F(GradientTapeTest, WithinAFunctionReadsOfOneVariableCountOnce) {
  const Variable v(Tensor(5.0));
  const auto f = function([&] {
    GradientTape tape;
    return tape.gradient(v * v + v * 3.0, Variables{v})[0];
  });
  EXPECT_EQ(f().item<double>(), 13.0);
}

TEST_F(GradientTapeTest, WithinAFunctionSecondDerivativesAreTheSame) {
  const auto f = function([](const Tensor& x) {
    GradientTape outer;
    outer.watch(x);
    GradientTape inner;
    inner.watch(x);
    const Tensor slope = inner.gradient(x * x * x, Tensors{x})[0];
    return outer.gradient(slope, Tensors{x})[0];
  });
  EXPECT_EQ(f(Tensor::from<double>({1, 2}, {2})).to_vector<double>(), (Doubles{6, 12}));
}

TEST_F(GradientTapeTest, UnconnectedGradientsAreZeroIfAsked) {
  const Variable w(Tensor::from<double>({1, 2}, {2}), {.name = "w"});
  const Tensor x(3.0);
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const GradientOptions zero{.unconnected = UnconnectedGradients::zero};
  EXPECT_EQ(tape.gradient(x * x, w, zero).to_vector<double>(), (Doubles{0, 0}));
  EXPECT_EQ(tape.gradient(x * x, Tensor(1.0), zero).item<double>(), 0.0);
  EXPECT_FALSE(tape.gradient(x * x, w).defined());
}

TEST_F(GradientTapeTest, WhatRunsWhilePausedIsNotRecorded) {
  const Tensor x(3.0);
  GradientTape tape;
  tape.watch(x);
  Tensor apart;
  {
    const auto paused = tape.stop_recording();
    apart = x * x;
  }
  EXPECT_EQ(tape.gradient(apart * x, x).item<double>(), 9.0);
}

TEST_F(GradientTapeTest, SeveralTargetsAddUpAndMayBeWeighted) {
  const Tensor x = Tensor::from<double>({1, 2}, {2});
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensors targets{x * 3.0, x * x};
  EXPECT_EQ(tape.gradient(targets, Tensors{x})[0].to_vector<double>(), (Doubles{5, 7}));
  const Tensor weights = Tensor::from<double>({10, 100}, {2});
  const auto weighted =
      tape.gradient(targets, Tensors{x}, {.output_gradients = {weights, Tensor()}});
  EXPECT_EQ(weighted[0].to_vector<double>(), (Doubles{32, 304}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] { tape.gradient(targets, Tensors{x}, {.output_gradients = {weights}}); },
      {"1 output gradients for 2 targets"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] { tape.gradient(targets[0], x, {.output_gradients = {Tensor(1.0)}}); },
      {"output gradient 0 is float64[], its target float64[2]"}));
}

TEST_F(GradientTapeTest, ATapeThatWasResetStartsAnew) {
  const Tensor x(3.0);
  GradientTape tape;
  tape.watch(x);
  const Tensor before = x * x;
  EXPECT_TRUE(tape.gradient(before, x).defined());
  tape.reset();
  tape.watch(x);
  EXPECT_EQ(tape.gradient(before * x, x).item<double>(), 9.0);
}

TEST_F(GradientTapeTest, NamesTheVariablesItWatched) {
  const Variable w(Tensor(1.0), {.name = "w"});
  const Variable other(Tensor(2.0), {.name = "other"});
  GradientTape tape;
  static_cast<void>(w.value() + w.value());
  const Variables watched = tape.watched_variables();
  ASSERT_EQ(watched.size(), 1u);
  EXPECT_EQ(watched[0].name(), "w");
}

TEST_F(GradientTapeTest, OnlyTheWayToTheSourcesIsWalked) {
  // The gradient by the labels of a cross-entropy is asked for by nobody.
  const Tensor logits = matrix({1, 2}, 2);
  const Tensor labels = matrix({0, 1}, 2);
  GradientTape tape;
  tape.watch(logits);
  tape.watch(labels);
  const Tensor loss = softmax_cross_entropy_with_logits(labels, logits);
  EXPECT_TRUE(tape.gradient(loss, logits).defined());
}

}  // namespace
}  // namespace tandem
