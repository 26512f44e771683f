#include "tandem/control_flow.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include "device/test/test_device.h"
#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/distribute.h"
#include "tandem/function.h"
#include "tandem/gradient_tape.h"
#include "tandem/interruption.h"
#include "tandem/keras/optimizers.h"
#include "tandem/ops.h"
#include "tandem/variable.h"

namespace tandem {
namespace {

using harness::throws;
using Floats = std::vector<float>;
using Doubles = std::vector<double>;

class ControlFlowTest : public harness::FreshDevices {};

Tensor vector(const Floats& values) {
  return Tensor::from(values, {static_cast<int64_t>(values.size())});
}

Tensor is_positive(const Tensor& x) { return greater(reduce_sum(x), Tensor(0.0f)); }

/// Doubles what is positive, squares what is not.
Tensor twice_or_square(const Tensor& x) {
  return cond(
      is_positive(x), [&] { return x * 2.0; }, [&] { return x * x; });
}

TEST_F(ControlFlowTest, TheBranchIsDecidedAtEachRun) {
  const auto f = function(twice_or_square);
  for (const auto& call : {std::function<Tensor(const Tensor&)>(twice_or_square),
                           std::function<Tensor(const Tensor&)>(f)}) {
    EXPECT_EQ(call(vector({1, 2, 3})).to_vector<float>(), (Floats{2, 4, 6}));
    EXPECT_EQ(call(vector({-1, -2, -3})).to_vector<float>(), (Floats{1, 4, 9}));
    EXPECT_EQ(call(vector({-4, 5})).to_vector<float>(), (Floats{-8, 10}));
  }
  EXPECT_EQ(f.trace_count(), 1);
}

TEST_F(ControlFlowTest, OnSeveralThreadsAndOnALateDevice) {
  devices::test::add_test_gpu();
  config::set_logical_cpus({{.threads = 3}});
  const Tensor x = reshape(range(0, 6000, 1, DType::float32), {1000, 6});
  const auto f = function([](const Tensor& x, const Tensor& w) {
    return cond(
        greater(reduce_max(w), Tensor(0.5f)), [&] { return relu(matmul(x, w)) + 1.0; },
        [&] {
          return reduce_sum(matmul(x, w), {.axes = {{0}}, .keepdims = true}) * ones({1000, 1});
        });
  });
  const auto expected = [](const Tensor& x, const Tensor& w, bool first) {
    return first ? relu(matmul(x, w)) + 1.0
                 : reduce_sum(matmul(x, w), {.axes = {{0}}, .keepdims = true}) * ones({1000, 1});
  };
  for (const char* name : {"/CPU:0", "/GPU:0"}) {
    const auto scope = device(name);
    for (const float scale : {1.0f, 0.25f, 1.0f}) {
      const Tensor w = ones({6, 40}) * double{scale};
      EXPECT_EQ(f(x, w).to_vector<float>(), expected(x, w, scale > 0.5f).to_vector<float>())
          << name << " " << scale;
    }
  }
}

TEST_F(ControlFlowTest, BranchesReturnStructuresOrNothing) {
  const Variable count(Tensor(0.0f), {.name = "count"});
  const auto f = function([&](const Tensor& x) {
    cond(
        is_positive(x), [&] { count.assign_add(Tensor(1.0f)); }, [] {});
    return cond(
        is_positive(x),
        [&] {
          return std::pair(x, std::vector<Tensor>{x + 1.0, x});
        },
        [&] {
          return std::pair(-x, std::vector<Tensor>{x, x - 1.0});
        });
  });
  const auto [a, list] = f(vector({1, 2}));
  EXPECT_EQ(a.to_vector<float>(), (Floats{1, 2}));
  EXPECT_EQ(list[0].to_vector<float>(), (Floats{2, 3}));
  const auto [b, other] = f(vector({-1, -2}));
  EXPECT_EQ(b.to_vector<float>(), (Floats{1, 2}));
  EXPECT_EQ(other[1].to_vector<float>(), (Floats{-2, -3}));
  EXPECT_EQ(count.value().item<float>(), 1.0f);
}

TEST_F(ControlFlowTest, GradientsPassThroughTheBranchThatWasTaken) {
  const Variable w(Tensor::from<double>({2, 3}, {2}), {.name = "w"});
  const auto gradients = [&](const Tensor& x) {
    GradientTape tape;
    tape.watch(x);
    const Tensor scaled = x * 3.0;
    const Tensor y = cond(
        greater(reduce_sum(x), Tensor(0.0)),
        [&] {
          return cond(
              greater(reduce_sum(x), Tensor(10.0)), [&] { return exp(x * 0.1) * w.value(); },
              [&] { return scaled * scaled * w.value(); });
        },
        [&] { return sin(scaled); });
    const Tensors found = tape.gradient(reduce_sum(y), Tensors{x});
    return found[0];
  };
  const auto variable_gradient = [&](const Tensor& x) {
    GradientTape tape;
    const Tensor y = cond(
        greater(reduce_sum(x), Tensor(0.0)), [&] { return x * w.value(); }, [&] { return x; });
    return tape.gradient(reduce_sum(y), w, {.unconnected = UnconnectedGradients::zero});
  };
  const auto f = function(gradients);
  const auto g = function(variable_gradient);
  for (const Doubles& values : {Doubles{1, 2}, Doubles{-1, -2}, Doubles{8, 9}}) {
    const Tensor x = Tensor::from(values, {2});
    EXPECT_EQ(f(x).to_vector<double>(), gradients(x).to_vector<double>());
    EXPECT_EQ(g(x).to_vector<double>(), variable_gradient(x).to_vector<double>());
  }
  EXPECT_EQ(g(Tensor::from<double>({5, 7}, {2})).to_vector<double>(), (Doubles{5, 7}));
  EXPECT_EQ(g(Tensor::from<double>({-5, -7}, {2})).to_vector<double>(), (Doubles{0, 0}));
}

TEST_F(ControlFlowTest, SecondDerivatives) {
  const auto f = function([](const Tensor& x) {
    GradientTape outer;
    outer.watch(x);
    Tensor first;
    {
      GradientTape inner;
      inner.watch(x);
      const Tensor y = cond(
          greater(x, Tensor(0.0)), [&] { return x * x * x; }, [&] { return x * x; });
      first = inner.gradient(y, x);
    }
    return outer.gradient(first, x);
  });
  EXPECT_EQ(f(Tensor(2.0)).item<double>(), 12.0);
  EXPECT_EQ(f(Tensor(-2.0)).item<double>(), 2.0);
}

TEST_F(ControlFlowTest, TheGradientSeesTheRandomNumbersThatWereDrawn) {
  random::set_seed(3);
  const auto f = function([](const Tensor& x) {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = cond(
        is_positive(x), [&] { return dropout(x, 0.5); }, [&] { return x; });
    return std::pair(y, tape.gradient(reduce_sum(y), x));
  });
  const auto [y, gradient] = f(ones({1000}));
  EXPECT_EQ(y.to_vector<float>(), gradient.to_vector<float>());
  const float kept = reduce_sum(y).item<float>();
  EXPECT_GT(kept, 700);
  EXPECT_LT(kept, 1300);
}

TEST_F(ControlFlowTest, ALoopRunsAsLongAsItsConditionSays) {
  const auto collatz = [](const Tensor& start) {
    const auto [steps, last] = while_loop(
        [](const std::pair<Tensor, Tensor>& now) {
          return not_equal(now.second, Tensor(int64_t{1}));
        },
        [](const std::pair<Tensor, Tensor>& now) {
          const Tensor& n = now.second;
          const Tensor half = floor_div(n, Tensor(int64_t{2}));
          const Tensor even = equal(half * Tensor(int64_t{2}), n);
          return std::pair(now.first + Tensor(int64_t{1}),
                           cond(
                               even, [&] { return half; },
                               [&] { return n * Tensor(int64_t{3}) + Tensor(int64_t{1}); }));
        },
        std::pair(Tensor(int64_t{0}), start));
    return steps;
  };
  const auto f = function(collatz);
  EXPECT_EQ(collatz(Tensor(int64_t{27})).item<int64_t>(), 111);
  for (int64_t start : {27, 1, 6}) {
    EXPECT_EQ(f(Tensor(start)).item<int64_t>(), collatz(Tensor(start)).item<int64_t>());
  }
  EXPECT_EQ(f.trace_count(), 1);
}

TEST_F(ControlFlowTest, WhatALoopBeginsWithStaysAsItWasInside) {
  const auto root = [](const Tensor& x) {
    return while_loop([&](const Tensor& now) { return greater(abs(now * now - x), Tensor(1e-9)); },
                      [&](const Tensor& now) { return (now + x / now) * 0.5; }, x);
  };
  EXPECT_NEAR(root(Tensor(297.0)).item<double>(), std::sqrt(297.0), 1e-9);
  EXPECT_NEAR(function(root)(Tensor(297.0)).item<double>(), std::sqrt(297.0), 1e-9);
}

TEST_F(ControlFlowTest, ALoopOverMatricesOnSeveralThreads) {
  config::set_logical_cpus({{.threads = 3}});
  const Variable total(zeros({64, 64}), {.name = "total"});
  const Tensor w = random_uniform({64, 64}, -0.1, 0.1);
  const auto f = function([&](const Tensor& x) {
    return while_loop([](const Tensor& now) { return less(reduce_max(abs(now)), Tensor(1e3f)); },
                      [&](const Tensor& now) {
                        total.assign_add(now);
                        return matmul(now, w) + now * 2.0;
                      },
                      x);
  });
  const Tensor x = random_uniform({64, 64});
  Tensor expected = x;
  Tensor sum = zeros({64, 64});
  while (reduce_max(abs(expected)).item<float>() < 1e3f) {
    sum = sum + expected;
    expected = matmul(expected, w) + expected * 2.0;
  }
  EXPECT_LT(reduce_max(abs(f(x) - expected)).item<float>(), 1e-2f);
  EXPECT_LT(reduce_max(abs(total.value() - sum)).item<float>(), 1e-2f);
}

TEST_F(ControlFlowTest, IterationsDrawTheirOwnRandomNumbers) {
  random::set_seed(1);
  const auto f = function([] {
    return while_loop(
               [](const std::pair<Tensor, Tensor>& now) {
                 return less(now.first, Tensor(int64_t{2}));
               },
               [](const std::pair<Tensor, Tensor>& now) {
                 return std::pair(now.first + Tensor(int64_t{1}), random_uniform({4}) - now.second);
               },
               std::pair(Tensor(int64_t{0}), zeros({4})))
        .second;
  });
  EXPECT_NE(f().to_vector<float>(), (Floats{0, 0, 0, 0}));
}

TEST_F(ControlFlowTest, IterationsHaveALimit) {
  const auto loop = [](const Tensor& x) {
    return while_loop([](const Tensor&) { return Tensor(true); },
                      [](const Tensor& now) { return now + 1.0; }, x, {.maximum_iterations = 7});
  };
  EXPECT_EQ(loop(Tensor(0.0f)).item<float>(), 7.0f);
  EXPECT_EQ(function(loop)(Tensor(0.0f)).item<float>(), 7.0f);
}

/// Asks for the end when a loop has surely begun.
class Request {
 public:
  Request()
      : thread_([] {
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          interruption::request();
        }) {}
  ~Request() { thread_.join(); }

 private:
  std::thread thread_;
};

TEST_F(ControlFlowTest, EndlessLoopsEndWhereSomebodyAsks) {
  const auto loop = [](const Tensor& x, const Tensor& end) {
    return while_loop([&](const Tensor& now) { return less(reduce_sum(now), end); },
                      [](const Tensor& now) { return now + 1.0; }, x);
  };
  config::set_logical_cpus({{.threads = 3}, {.threads = 1}});
  const auto f = function(loop);
  const auto g = function([&](const Tensor& x, const Tensor& end) {
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(loop(x, end), Tensors{x})[0];
  });
  for (const auto& call :
       {std::function<Tensor(Tensor, Tensor)>(loop), std::function<Tensor(Tensor, Tensor)>(f),
        std::function<Tensor(Tensor, Tensor)>(g)}) {
    {
      const Request request;
      EXPECT_THROW(call(zeros({64}), Tensor(1e30F)), Interrupted);
    }
    EXPECT_NO_THROW(call(zeros({64}), Tensor(100.0F)));
  }
  EXPECT_EQ(reduce_sum(f(zeros({64}), Tensor(100.0F))).item<float>(), 128.0F);
  const distribute::MirroredStrategy strategy;
  const auto per_replica = strategy.split(zeros({8, 8}));
  const auto endless = function([&](const Tensor& x) { return loop(x, Tensor(1e30F)); });
  const Request request;
  EXPECT_THROW(strategy.run(endless, per_replica), Interrupted);
}

TEST_F(ControlFlowTest, LoopsInWholeStepsAreFinished) {
  config::set_logical_cpus({{.threads = 1}});
  const auto count = function([](const Tensor& end) {
    return while_loop([&](const Tensor& now) { return less(now, end); },
                      [](const Tensor& now) { return now + 1.0; }, zeros({}));
  });
  const Tensor end(3e6F);  // For longer than the time between two looks.
  interruption::request();
  {
    const interruption::WholeStep whole;
    EXPECT_EQ(count(end).item<float>(), 3e6F);
  }
  const Tensor never(std::numeric_limits<float>::infinity());
  EXPECT_THROW(count(never), Interrupted);
}

TEST_F(ControlFlowTest, ReplicasDecideForThemselves) {
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  const distribute::MirroredStrategy strategy;
  const auto f = function(twice_or_square);
  const auto result = strategy.run(f, strategy.split(vector({1, 2, -3, -4})));
  EXPECT_EQ(strategy.local_results(result)[0].to_vector<float>(), (Floats{2, 4}));
  EXPECT_EQ(strategy.local_results(result)[1].to_vector<float>(), (Floats{9, 16}));
}

TEST_F(ControlFlowTest, WhatCannotBeIsSaid) {
  const auto call = [](auto f) { return [f] { function(f)(vector({1, 2})); }; };
  EXPECT_TRUE(throws<InvalidArgument>(call([](const Tensor& x) {
                                        return cond(
                                            is_positive(x), [&] { return x; },
                                            [&] {
                                              return concat({x, x}, 0);
                                            });
                                      }),
                                      {"cond: result 0", "in the first branch", "in the second"}));
  EXPECT_TRUE(throws<InvalidArgument>(call([](const Tensor& x) {
                                        return cond(
                                            x, [&] { return x; }, [&] { return x; });
                                      }),
                                      {"cond: the predicate is float32", "bool"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      call([](const Tensor& x) {
        return while_loop([](const Tensor& now) { return is_positive(now); },
                          [](const Tensor& now) {
                            return concat({now, now}, 0);
                          },
                          x);
      }),
      {"while_loop: variable 0 is float32", "before", "after an iteration"}));
  EXPECT_TRUE(throws<FailedPrecondition>(call([](const Tensor& x) {
                                           Tensor leaked;
                                           cond(
                                               is_positive(x), [&] { leaked = x * 2.0; }, [] {});
                                           return leaked + 1.0;
                                         }),
                                         {"branch or loop that has ended"}));
}

TEST_F(ControlFlowTest, ReplicasCannotMeetInside) {
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  const distribute::MirroredStrategy strategy;
  const auto scope = strategy.scope();
  const Variable count(Tensor(0.0f), {.name = "count", .aggregation = VariableAggregation::sum});
  const auto f = function([&](const Tensor& x) {
    cond(
        is_positive(x), [&] { count.assign_add(reduce_sum(x)); }, [] {});
    return x;
  });
  const auto batch = strategy.split(vector({1, 2}));
  EXPECT_TRUE(throws<FailedPrecondition>([&] { strategy.run(f, batch); },
                                         {"assign_add", "inside cond", "strategy.run"}));
  const keras::optimizers::Adam optimizer;
  bool inside = true;
  const auto g = function([&](const Tensor& x) {
    const auto apply = [&] { optimizer.apply_gradients({reduce_sum(x)}, {count}); };
    inside ? cond(is_positive(x), apply, [] {}) : apply();
    return x;
  });
  EXPECT_TRUE(throws<FailedPrecondition>([&] { strategy.run(g, batch); },
                                         {"all_reduce", "inside cond", "reduce before or after"}));
  inside = false;
  EXPECT_NO_THROW(strategy.run(g, batch));
  const auto looping = function([](const Tensor& x) {
    return while_loop([](const Tensor& now) { return less(reduce_sum(now), Tensor(9.0f)); },
                      [](const Tensor& now) {
                        return distribute::get_replica_context()->all_reduce(
                            distribute::ReduceOp::sum, now);
                      },
                      reduce_sum(x));
  });
  EXPECT_TRUE(throws<FailedPrecondition>([&] { strategy.run(looping, batch); },
                                         {"all_reduce", "inside while_loop"}));
}

}  // namespace
}  // namespace tandem
