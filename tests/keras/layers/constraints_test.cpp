// Constraints hold after each update, whatever the optimizer, in fit and in loops of one's own.
#include <gtest/gtest.h>

#include <cmath>

#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/tandem.h"

namespace tandem::keras {
namespace {

using harness::throws;
using Doubles = std::vector<double>;

class ConstraintsTest : public harness::FreshDevices {};

Tensor matrix(const Doubles& values) { return Tensor::from(values, {2, 2}); }

void expect_near(const Tensor& got, const Doubles& expected) {
  const auto values = cast(got, DType::float64).to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-6) << i;
}

// The columns of the matrix have the norms 5 and 1.
TEST_F(ConstraintsTest, AreThoseOfKeras) {
  const Tensor w = matrix({3, 0.6, -4, 0.8});
  expect_near(constraints::max_norm(2)(w), {1.2, 0.6, -1.6, 0.8});
  expect_near(constraints::max_norm(2, {1})(w),
              {3 * 2 / std::hypot(3, 0.6), 0.6 * 2 / std::hypot(3, 0.6),
               -4 * 2 / std::hypot(4, 0.8), 0.8 * 2 / std::hypot(4, 0.8)});
  expect_near(constraints::non_neg()(w), {3, 0.6, 0, 0.8});
  expect_near(constraints::unit_norm()(w), {0.6, 0.6, -0.8, 0.8});
  expect_near(constraints::min_max_norm(2, 3)(w), {1.8, 1.2, -2.4, 1.6});
  expect_near(constraints::min_max_norm(2, 3, 0.5)(w), {2.4, 0.9, -3.2, 1.2});
  expect_near(Constraint("max_norm")(w), {1.2, 0.6, -1.6, 0.8});
  EXPECT_TRUE(throws<InvalidArgument>([] { Constraint("norm"); }, {"'norm'", "unit_norm"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { constraints::min_max_norm(3, 2); }, {"3 to 2"}));
}

TEST_F(ConstraintsTest, HoldAfterEachUpdateOfALayersWeights) {
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  const Tensor x = random_uniform({24, 3}, -1, 1, {.seed = 1});
  const Tensor y = matmul(x, Tensor::from<float>({-4, 5, 3}, {3, 1}));
  const auto trained = [&](const distribute::Strategy& strategy) {
    const auto scope = strategy.scope();
    const Sequential model({layers::Dense(1, {.kernel_initializer = "ones",
                                              .kernel_constraint = constraints::unit_norm(),
                                              .bias_constraint = "non_neg",
                                              .input_shape = {3}})});
    model.compile({.optimizer = optimizers::Adam(0.5), .loss = "mse"});
    model.fit(x, y, {.batch_size = 8, .epochs = 3, .verbose = Verbose::silent, .shuffle = false});
    const auto bias = model.get_weights()[1].to_vector<float>();
    EXPECT_GE(bias[0], 0);
    return model.get_weights()[0];
  };
  const Tensor alone = trained(distribute::OneDeviceStrategy("/CPU:0"));
  EXPECT_NEAR(reduce_sum(square(alone)).item<float>(), 1, 1e-5);
  const Tensor together = trained(distribute::MirroredStrategy());
  EXPECT_LT(reduce_max(abs(together - alone)).item<float>(), 1e-5);
}

TEST_F(ConstraintsTest, OfOnesOwnVariables) {
  const Variable w(Tensor::from<double>({1, 2}, {2}), {.name = "w"});
  constrain(w, Constraint([](const Tensor& value) { return clip(value, -0.01, 0.01); }));
  const optimizers::SGD sgd(0.1);
  const auto step = function([&] { sgd.apply_gradients({w.value()}, {w}); });
  step();
  expect_near(w.value(), {0.01, 0.01});
  constrain(w, {});
  w.assign(Tensor::from<double>({1, 2}, {2}));
  sgd.apply_gradients({zeros({2}, DType::float64)}, {w});
  expect_near(w.value(), {1, 2});
}

TEST_F(ConstraintsTest, LeaveTheWeightsOfAStepThatDoesNothing) {
  const Variable w(Tensor::from<double>({-1, 2}, {2}), {.name = "w"});
  constrain(w, "non_neg");
  const optimizers::SGD sgd(0.1);
  sgd.apply_gradients({zeros({2}, DType::float64)}, {w}, Tensor(false));
  expect_near(w.value(), {-1, 2});
  sgd.apply_gradients({zeros({2}, DType::float64)}, {w});
  expect_near(w.value(), {0, 2});
}

}  // namespace
}  // namespace tandem::keras
