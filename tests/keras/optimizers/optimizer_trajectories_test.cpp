// Optimizers against those of Keras, whose losses tests/fixtures/make_keras_optimizers.py has
// written.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "harness/fresh_devices.h"
#include "tandem/tandem.h"

namespace tandem::keras::optimizers {
namespace {

using Losses = std::vector<double>;

constexpr size_t kSteps = 50;

struct Case {
  const char* name;
  Optimizer (*make)();
};

std::ostream& operator<<(std::ostream& out, const Case& test) { return out << test.name; }

const Case kCases[] = {
    {"sgd", []() -> Optimizer { return SGD(0.0625); }},
    {"sgd_momentum", []() -> Optimizer { return SGD(0.03125, {.momentum = 0.9}); }},
    {"sgd_nesterov",
     []() -> Optimizer { return SGD(0.03125, {.momentum = 0.9, .nesterov = true}); }},
    {"sgd_weight_decay", []() -> Optimizer { return SGD(0.0625, {.weight_decay = 0.25}); }},
    {"sgd_clipnorm", []() -> Optimizer { return SGD(0.0625, {.clipnorm = 0.75}); }},
    {"sgd_clipvalue", []() -> Optimizer { return SGD(0.0625, {.clipvalue = 0.5}); }},
    {"sgd_global_clipnorm",
     []() -> Optimizer { return SGD(0.0625, {.momentum = 0.5, .global_clipnorm = 1.5}); }},
    {"sgd_accumulation",
     []() -> Optimizer { return SGD(0.125, {.momentum = 0.5, .gradient_accumulation_steps = 4}); }},
    {"rmsprop", []() -> Optimizer { return RMSprop(0.03125); }},
    {"rmsprop_momentum",
     []() -> Optimizer {
       return RMSprop(0.015625, {.rho = 0.8, .momentum = 0.5, .epsilon = 1e-3});
     }},
    {"rmsprop_centered",
     []() -> Optimizer { return RMSprop(0.015625, {.epsilon = 1e-2, .centered = true}); }},
    {"rmsprop_all",
     []() -> Optimizer {
       return RMSprop(0.015625, {.momentum = 0.5,
                                 .epsilon = 1e-2,
                                 .centered = true,
                                 .weight_decay = 0.125,
                                 .clipvalue = 1.0});
     }},
    {"adagrad", []() -> Optimizer { return Adagrad(0.5); }},
    {"adagrad_options",
     []() -> Optimizer {
       return Adagrad(0.5,
                      {.initial_accumulator_value = 0.75, .epsilon = 1e-3, .weight_decay = 0.0625});
     }},
    {"adam", []() -> Optimizer { return Adam(0.0625); }},
    {"adam_options",
     []() -> Optimizer {
       return Adam(0.0625, {.beta_1 = 0.8, .beta_2 = 0.9, .epsilon = 1e-3, .weight_decay = 0.25});
     }},
    {"adam_amsgrad",
     []() -> Optimizer { return Adam(0.125, {.beta_1 = 0.5, .beta_2 = 0.75, .amsgrad = true}); }},
    {"adam_accumulation",
     []() -> Optimizer { return Adam(0.125, {.gradient_accumulation_steps = 3}); }},
    {"adam_accumulation_clipped",
     []() -> Optimizer {
       return Adam(schedules::ExponentialDecay(0.25, 10, 0.5), {.epsilon = 0.5,
                                                                .weight_decay = 0.125,
                                                                .global_clipnorm = 1.0,
                                                                .gradient_accumulation_steps = 2});
     }},
    {"adamw", []() -> Optimizer { return AdamW(0.0625); }},
    {"adamw_options",
     []() -> Optimizer {
       return AdamW(0.0625, {.weight_decay = 0.5, .beta_1 = 0.75, .clipnorm = 0.5});
     }},
    {"exponential",
     []() -> Optimizer { return SGD(schedules::ExponentialDecay(0.125, 20, 0.25)); }},
    {"exponential_staircase",
     []() -> Optimizer {
       return SGD(schedules::ExponentialDecay(0.125, 20, 0.25, {.staircase = true}));
     }},
    {"cosine",
     []() -> Optimizer { return SGD(schedules::CosineDecay(0.125, 30, {.alpha = 0.125})); }},
    {"cosine_warmup",
     []() -> Optimizer {
       return SGD(schedules::CosineDecay(0.0, 25, {.warmup_target = 0.125, .warmup_steps = 10}));
     }},
    {"piecewise",
     []() -> Optimizer {
       return SGD(schedules::PiecewiseConstantDecay({5, 20}, {0.125, 0.0625, 0.015625}));
     }},
    {"polynomial",
     []() -> Optimizer {
       return SGD(
           schedules::PolynomialDecay(0.125, 30, {.end_learning_rate = 0.015625, .power = 2}));
     }},
    {"polynomial_cycle",
     []() -> Optimizer {
       return SGD(schedules::PolynomialDecay(0.125, 20, {.power = 0.5, .cycle = true}));
     }},
};

Losses losses_of_keras(const std::string& name) {
  std::ifstream file(TANDEM_FIXTURES_DIR "/keras_optimizers.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first != name) continue;
    Losses losses;
    for (double loss = 0; words >> loss;) losses.push_back(loss);
    return losses;
  }
  ADD_FAILURE() << "tests/fixtures/keras_optimizers.txt has no " << name;
  return {};
}

/// The sum of c (w - t)^2 / 2 over the elements of two variables.
class Problem {
 public:
  explicit Problem(Optimizer (*make)()) : optimizer(make()) {
    const auto tensors = [](auto f) {
      std::vector<double> first, second;
      for (int i = 0; i < 13; ++i) (i < 7 ? first : second).push_back(f(i));
      return Tensors{Tensor::from(first, {7}), Tensor::from(second, {2, 3})};
    };
    targets_ = tensors([](int i) { return std::cos(5 * i); });
    curvatures_ = tensors([](int i) { return 0.5 + 0.5 * (i % 5); });
    for (const Tensor& w : tensors([](int i) { return 2 * std::sin(3 * i + 1); })) {
      weights.emplace_back(w);
    }
  }

  /// The loss before the step. `shares` add up to 1 over the replicas.
  Tensor step(const Tensor& shares) const {
    const Tensor share = reduce_sum(shares);
    Tensor loss(0.0);
    Tensors gradients;
    for (size_t i = 0; i < weights.size(); ++i) {
      const Tensor gap = weights[i].value() - targets_[i];
      gradients.push_back(gap * curvatures_[i] * share);
      loss = loss + reduce_sum(square(gap) * curvatures_[i]) * 0.5 * share;
    }
    optimizer.apply_gradients(gradients, weights);
    return loss;
  }

  Optimizer optimizer;
  Variables weights;

 private:
  Tensors targets_, curvatures_;
};

void expect_near(const Losses& found, const Losses& expected, double tolerance) {
  ASSERT_EQ(expected.size(), kSteps);
  for (size_t i = 0; i < kSteps; ++i) {
    ASSERT_NEAR(found[i], expected[i], tolerance * (1 + expected[i])) << "step " << i;
  }
}

class Trajectory : public harness::FreshDevices, public testing::WithParamInterface<Case> {
 protected:
  static Tensor whole() { return Tensor::from({1.0}, {1}); }

  Losses eager_losses() const {
    const Problem problem(GetParam().make);
    Losses losses;
    for (size_t i = 0; i < kSteps; ++i) losses.push_back(problem.step(whole()).item<double>());
    return losses;
  }
};

/// Keras rounds Adam's beta_2 to float32 in float64 too, which moves 1 - 0.999 by 1e-5 of itself.
TEST_P(Trajectory, IsThatOfKeras) {
  expect_near(eager_losses(), losses_of_keras(GetParam().name), 1e-5);
}

TEST_P(Trajectory, IsTheSameInAFunctionOnSeveralThreads) {
  const Losses expected = eager_losses();
  devices::reset_devices();
  config::set_logical_cpus({{.threads = 3}});
  const Problem problem(GetParam().make);
  const auto step = function([&](const Tensor& shares) { return problem.step(shares); });
  Losses losses;
  for (size_t i = 0; i < kSteps; ++i) losses.push_back(step(whole()).item<double>());
  EXPECT_EQ(step.trace_count(), 1);
  expect_near(losses, expected, 1e-11);
}

TEST_P(Trajectory, IsTheSameOnTwoReplicas) {
  const Losses expected = eager_losses();
  devices::reset_devices();
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  const distribute::MirroredStrategy strategy;
  const auto scope = strategy.scope();
  const Problem problem(GetParam().make);
  const auto step = function([&](const Tensor& shares) { return problem.step(shares); });
  const auto shares = strategy.split(Tensor::from({0.25, 0.5, 0.25}, {3}));
  Losses losses;
  for (size_t i = 0; i < kSteps; ++i) {
    const auto parts = strategy.run(step, shares);
    losses.push_back(strategy.reduce(distribute::ReduceOp::sum, parts).item<double>());
  }
  expect_near(losses, expected, 1e-11);
}

INSTANTIATE_TEST_SUITE_P(Of, Trajectory, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace tandem::keras::optimizers
