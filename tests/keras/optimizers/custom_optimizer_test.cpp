// A rule of one's own, composed of ops, does what a fused rule does.
#include <gtest/gtest.h>

#include "harness/fresh_devices.h"
#include "harness/temp_folder.h"
#include "harness/throws.h"
#include "tandem/tandem.h"

namespace tandem::keras::optimizers {
namespace {

using harness::throws;

class CustomOptimizerTest : public harness::FreshDevices {};

/// Adam, as its authors wrote it.
OptimizerRule adam_rule() {
  return {.name = "own_adam",
          .slots = {{"momentum"}, {"velocity"}},
          .update = [](const VariableStep& at) {
            const Tensor m = at.slots[0] + (at.gradient - at.slots[0]) * (1 - 0.9);
            const Tensor v = at.slots[1] + (square(at.gradient) - at.slots[1]) * (1 - 0.999);
            const Tensor bias_1 = 1.0 - pow(ones_like(at.number) * 0.9, at.number);
            const Tensor bias_2 = 1.0 - pow(ones_like(at.number) * 0.999, at.number);
            const Tensor alpha = at.rate * sqrt(bias_2) / bias_1;
            return VariableUpdate{at.value - alpha * m / (sqrt(v) + 1e-7), {m, v}};
          }};
}

/// The weights of a small model after some steps of fit.
std::vector<Tensor> fitted(const distribute::Strategy& strategy,
                           const std::function<Optimizer()>& make) {
  const auto scope = strategy.scope();
  const Sequential model(
      {layers::Dense(3, {.activation = "tanh", .kernel_initializer = "ones", .input_shape = {2}}),
       layers::Dense(1, {.kernel_initializer = "ones"})});
  model.compile({.optimizer = make(), .loss = "mse"});
  const Tensor x = reshape(range(0, 20, 1, DType::float32), {10, 2}) * 0.1;
  const Tensor y = reduce_sum(square(x), {.axes = {1}, .keepdims = true});
  model.fit(x, y, {.batch_size = 3, .epochs = 4, .verbose = Verbose::silent, .shuffle = false});
  return model.get_weights();
}

void expect_same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_LT(reduce_max(abs(a[i] - b[i])).item<float>(), 2e-5f) << i;
  }
}

TEST_F(CustomOptimizerTest, IsWhatTheFusedRuleIs) {
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  const distribute::OneDeviceStrategy alone("/CPU:0");
  const distribute::MirroredStrategy together;
  const auto expected = fitted(alone, [] { return Adam(0.02); });
  const auto own = [] { return Custom(0.02, adam_rule()); };
  expect_same(fitted(alone, own), expected);
  expect_same(fitted(together, own), expected);
}

TEST_F(CustomOptimizerTest, HasClippingDecayAndAccumulation) {
  const distribute::OneDeviceStrategy alone("/CPU:0");
  const auto own = [&](const CustomOptions& options) {
    return fitted(alone, [&] { return Custom(0.02, adam_rule(), options); });
  };
  const auto fused = [&](const AdamOptions& options) {
    return fitted(alone, [&] { return Adam(0.02, options); });
  };
  expect_same(own({.weight_decay = 0.1, .clipnorm = 0.5}),
              fused({.weight_decay = 0.1, .clipnorm = 0.5}));
  expect_same(own({.gradient_accumulation_steps = 3}), fused({.gradient_accumulation_steps = 3}));
}

TEST_F(CustomOptimizerTest, SlotsAreNamedAndRestored) {
  const Variable w(Tensor::from<double>({1, 2}, {2}), {.name = "w"});
  const OptimizerRule rule{
      .name = "sums", .slots = {{"total", 5.0}}, .update = [](const VariableStep& at) {
        const Tensor total = at.slots[0] + at.gradient;
        return VariableUpdate{at.value - at.rate * total, {total}};
      }};
  const Custom optimizer(0.5, rule);
  EXPECT_EQ(optimizer.name(), "sums");
  optimizer.apply_gradients({Tensor::from<double>({1, 1}, {2})}, {w});
  EXPECT_EQ(w.value().to_vector<double>(), (std::vector<double>{-2, -1}));
  const Variable slot = optimizer.variables().back();
  EXPECT_NE(slot.name().find("/total"), std::string::npos) << slot.name();
  EXPECT_EQ(slot.value().to_vector<double>(), (std::vector<double>{6, 6}));

  const harness::TempFolder folder;
  const auto path = train::Checkpoint({{"optimizer", optimizer}}).save(folder / "ckpt");
  const Custom other(0.1, rule);
  other.build({w});
  train::Checkpoint({{"optimizer", other}}).restore(path);
  EXPECT_EQ(other.variables().back().value().to_vector<double>(), (std::vector<double>{6, 6}));
  EXPECT_EQ(other.learning_rate().value().item<double>(), 0.5);
}

TEST_F(CustomOptimizerTest, SaysWhatDoesNotFit) {
  EXPECT_TRUE(throws<InvalidArgument>([] { Custom(0.1, {.name = "none"}); }, {"none", "update"}));
  const Variable w(Tensor::from<double>({1, 2}, {2}), {.name = "w"});
  const auto apply = [&](OptimizerRule rule) {
    return [&w, rule] { Custom(0.1, rule).apply_gradients({zeros({2}, DType::float64)}, {w}); };
  };
  EXPECT_TRUE(throws<InvalidArgument>(
      apply(
          {.name = "sum",
           .update = [](const VariableStep& at) { return VariableUpdate{reduce_sum(at.value)}; }}),
      {"sum", "'w'", "the value"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      apply({.name = "lost",
             .slots = {{"a"}},
             .update = [](const VariableStep& at) { return VariableUpdate{at.value}; }}),
      {"lost", "0 slots", "has 1"}));
  EXPECT_EQ(w.value().to_vector<double>(), (std::vector<double>{1, 2}));
}

}  // namespace
}  // namespace tandem::keras::optimizers
