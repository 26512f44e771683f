// The gradient of while_loop inside functions is that of the same loop run op by op.
#include <gtest/gtest.h>

#include "device/test/test_device.h"
#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/control_flow.h"
#include "tandem/distribute.h"
#include "tandem/function.h"
#include "tandem/gradient_tape.h"
#include "tandem/keras/optimizers.h"
#include "tandem/ops.h"
#include "tandem/variable.h"

namespace tandem {
namespace {

using harness::throws;
using Doubles = std::vector<double>;
using Counted = std::pair<Tensor, Tensor>;

class LoopGradientTest : public harness::FreshDevices {};

/// `steps` times h = tanh(h w + x), with the counter as a loop variable.
Tensor recurrent(const Tensor& h, const Tensor& x, const Tensor& w, const Tensor& steps) {
  return while_loop([&](const Counted& now) { return less(now.first, steps); },
                    [&](const Counted& now) {
                      return Counted(now.first + Tensor(int64_t{1}),
                                     tanh(matmul(now.second, w) + x));
                    },
                    Counted(Tensor(int64_t{0}), h))
      .second;
}

Tensors recurrent_gradients(const Tensor& h, const Tensor& x, const Tensor& w,
                            const Tensor& steps) {
  GradientTape tape;
  for (const Tensor& each : {h, x, w}) tape.watch(each);
  const Tensor loss = reduce_sum(square(recurrent(h, x, w, steps)));
  return tape.gradient(loss, Tensors{h, x, w});
}

void expect_near(const Tensor& a, const Tensor& b, double tolerance = 1e-9) {
  ASSERT_EQ(a.shape(), b.shape());
  EXPECT_LT(reduce_max(abs(a - b)).item<double>(), tolerance);
}

TEST_F(LoopGradientTest, IsThatOfTheLoopRunOpByOp) {
  config::set_logical_cpus({{.threads = 2}});
  devices::test::add_test_gpu();
  const Tensor h = random_uniform({3, 4}, -1, 1, {.dtype = DType::float64, .seed = 1});
  const Tensor x = random_uniform({3, 4}, -1, 1, {.dtype = DType::float64, .seed = 2});
  const Tensor w = random_uniform({4, 4}, -1, 1, {.dtype = DType::float64, .seed = 3});
  const auto f = function(recurrent_gradients);
  for (const char* name : {"/CPU:0", "/GPU:0"}) {
    const auto scope = device(name);
    for (int64_t steps : {0, 1, 2, 7}) {
      const Tensors expected = recurrent_gradients(h, x, w, Tensor(steps));
      const Tensors got = f(h, x, w, Tensor(steps));
      for (size_t i = 0; i < got.size(); ++i) {
        // Op by op, what no iteration has used has no gradient; in a function it is 0.
        expect_near(got[i], expected[i].defined() ? expected[i] : zeros_like(got[i]));
      }
    }
  }
}

TEST_F(LoopGradientTest, LongLoopsKeepSomeOfTheirIterations) {
  // So many numbers leave places for 64 iterations; after 300 each eighth is kept.
  const auto gradient = [](const Tensor& x, const Tensor& factor) {
    GradientTape tape;
    tape.watch(factor);
    const Tensor y =
        while_loop([](const Counted& now) { return less(now.first, Tensor(int64_t{300})); },
                   [&](const Counted& now) {
                     return Counted(now.first + Tensor(int64_t{1}), now.second * factor + 0.5);
                   },
                   Counted(Tensor(int64_t{0}), x))
            .second;
    return tape.gradient(reduce_mean(y), factor);
  };
  const Tensor factor(0.9);
  const double expected = gradient(Tensor::from<double>({1, 2}, {2}), factor).item<double>();
  const Tensor x = reshape(
      concat({fill({1 << 14, 1}, 1.0, DType::float64), fill({1 << 14, 1}, 2.0, DType::float64)}, 1),
      {1 << 15});
  EXPECT_NEAR(function(gradient)(x, factor).item<double>(), expected, 1e-9);
}

TEST_F(LoopGradientTest, ReachesVariablesThatTheBodyReads) {
  const Variable w(Tensor::from<double>({0.5, -0.25}, {2}), {.name = "w"});
  const auto gradient = [&](const Tensor& x) {
    GradientTape tape;
    const Tensor y = while_loop(
        [](const Tensor& now) { return less(reduce_sum(abs(now)), Tensor(40.0)); },
        [&](const Tensor& now) {
          return cond(
              greater(reduce_sum(now), Tensor(0.0)), [&] { return now * 2.0 + w.value(); },
              [&] { return now * w.value() * 9.0; });
        },
        x);
    return tape.gradient(reduce_sum(square(y)), w);
  };
  const auto f = function(gradient);
  for (const Doubles& values : {Doubles{1, 2}, Doubles{-1, 0.5}, Doubles{50, 1}}) {
    const Tensor x = Tensor::from(values, {2});
    const Tensor expected = gradient(x);
    if (!expected.defined()) continue;  // No iteration: op by op nothing depends on w.
    expect_near(f(x), expected);
  }
  EXPECT_EQ(f(Tensor::from<double>({50, 1}, {2})).to_vector<double>(), (Doubles{0, 0}));
}

TEST_F(LoopGradientTest, LoopsNest) {
  const auto gradient = [](const Tensor& x) {
    GradientTape tape;
    tape.watch(x);
    const auto inner = [&](const Tensor& from) {
      return while_loop([](const Counted& now) { return less(now.first, Tensor(int64_t{3})); },
                        [&](const Counted& now) {
                          return Counted(now.first + Tensor(int64_t{1}), sin(now.second) + x);
                        },
                        Counted(Tensor(int64_t{0}), from))
          .second;
    };
    const Tensor y = while_loop([](const Tensor& now) { return less(now, Tensor(20.0)); },
                                [&](const Tensor& now) { return now + inner(now) * 2.0; }, x);
    return tape.gradient(y, x);
  };
  const auto f = function(gradient);
  for (double x : {1.5, 0.7, 30.0}) {
    EXPECT_NEAR(f(Tensor(x)).item<double>(), gradient(Tensor(x)).item<double>(), 1e-6) << x;
  }
}

TEST_F(LoopGradientTest, SeesTheRandomNumbersThatWereDrawn) {
  random::set_seed(5);
  const auto f = function([](const Tensor& x) {
    GradientTape tape;
    tape.watch(x);
    const Tensor y =
        while_loop([](const Counted& now) { return less(now.first, Tensor(int64_t{3})); },
                   [](const Counted& now) {
                     return Counted(now.first + Tensor(int64_t{1}), dropout(now.second, 0.3));
                   },
                   Counted(Tensor(int64_t{0}), x))
            .second;
    return std::pair(y, tape.gradient(reduce_sum(y), x));
  });
  const auto [y, gradient] = f(ones({2000}));
  EXPECT_EQ(y.to_vector<float>(), gradient.to_vector<float>());
  const float kept = reduce_sum(cast(greater(y, Tensor(0.0f)), DType::float32)).item<float>();
  EXPECT_GT(kept, 2000 * 0.25f);
  EXPECT_LT(kept, 2000 * 0.45f);
}

TEST_F(LoopGradientTest, AModelTrainsThroughALoopOnReplicas) {
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  const auto trained = [](const distribute::Strategy& strategy) {
    const auto scope = strategy.scope();
    const Variable w(fill({2, 2}, 0.1, DType::float64), {.name = "w"});
    const keras::optimizers::SGD optimizer(0.1);
    const auto step = function([&](const Tensor& x) {
      GradientTape tape;
      const Tensor y =
          while_loop([](const Counted& now) { return less(now.first, Tensor(int64_t{4})); },
                     [&](const Counted& now) {
                       return Counted(now.first + Tensor(int64_t{1}),
                                      tanh(matmul(now.second, w.value()) + x));
                     },
                     Counted(Tensor(int64_t{0}), x))
              .second;
      const Tensor loss = reduce_sum(square(y - 0.3));
      optimizer.apply_gradients({tape.gradient(loss, w)}, {w});
      return loss;
    });
    const Tensor x = reshape(range(0, 12, 1, DType::float64), {6, 2}) * 0.1;
    for (int i = 0; i < 5; ++i) strategy.run(step, strategy.split(x));
    return w.value();
  };
  expect_near(trained(distribute::MirroredStrategy()),
              trained(distribute::OneDeviceStrategy("/CPU:0")));
}

TEST_F(LoopGradientTest, WhatCannotBeIsSaid) {
  const Variable count(Tensor(0.0), {.name = "count", .trainable = false});
  const auto loop = [&](const Tensor& x, bool assigns) {
    return while_loop([](const Tensor& now) { return less(now, Tensor(9.0)); },
                      [&, assigns](const Tensor& now) {
                        if (assigns) count.assign_add(Tensor(1.0));
                        return now * 2.0;
                      },
                      x);
  };
  EXPECT_TRUE(throws<Unimplemented>(
      [&] {
        function([&](const Tensor& x) {
          GradientTape tape;
          tape.watch(x);
          const Tensor y = loop(x, true);
          return tape.gradient(y, x);
        })(Tensor(1.0));
      },
      {"while_loop", "assigns variables"}));
  EXPECT_TRUE(throws<Unimplemented>(
      [&] {
        function([&](const Tensor& x) {
          GradientTape outer;
          outer.watch(x);
          Tensor first;
          {
            GradientTape inner;
            inner.watch(x);
            const Tensor y = loop(x, false);
            first = inner.gradient(y * y, x);
          }
          return outer.gradient(first, x);
        })(Tensor(1.0));
      },
      {"while_loop", "second derivative"}));
}

}  // namespace
}  // namespace tandem
