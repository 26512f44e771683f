#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/keras/layers.h"
#include "tandem/keras/model.h"
#include "tandem/ops.h"

namespace tandem::keras {
namespace {

using harness::throws;
using layers::BatchNormalization;
using layers::Dense;

using Values = std::vector<std::vector<double>>;

Values values_of(const Variables& variables) {
  Values values;
  for (const Variable& variable : variables) {
    values.push_back(cast(variable.value(), DType::float64).to_vector<double>());
  }
  return values;
}

const double kNaN = std::numeric_limits<double>::quiet_NaN();
const double kInfinity = std::numeric_limits<double>::infinity();

class LossWatchTest : public harness::FreshDevices {
 protected:
  static constexpr int64_t kBatch = 10;

  void SetUp() override {
    FreshDevices::SetUp();
    random::set_seed(3);
    x_ = random_uniform({100, 4}, -1, 1);
    y_ = matmul(x_, Tensor::from<float>({1, -2, 3, 0.5}, {4, 1}));
  }

  /// y with one value replaced, in the batch with this number.
  Tensor spoiled(int64_t batch, double value) const {
    auto values = y_.to_vector<float>();
    values[static_cast<size_t>(batch * kBatch + 3)] = static_cast<float>(value);
    return Tensor::from(values, y_.shape());
  }

  static Sequential normalised() {
    return Sequential({Dense(3, {.input_shape = {4}}), BatchNormalization(), Dense(1)});
  }

  FitOptions in_order() const {
    return {.batch_size = kBatch, .epochs = 2, .verbose = Verbose::silent, .shuffle = false};
  }

  Tensor x_, y_;
};

TEST_F(LossWatchTest, NothingChangesFromTheFirstLossThatIsNoNumberOn) {
  for (const bool eagerly : {false, true}) {
    for (const double bad : {kNaN, kInfinity}) {
      const Sequential model = normalised();
      const Sequential twin = normalised();
      twin.set_weights(model.get_weights());
      const optimizers::Adam optimizer(0.125), same(0.125);
      model.compile({.optimizer = optimizer, .loss = "mse", .run_eagerly = eagerly});
      twin.compile({.optimizer = same, .loss = "mse", .run_eagerly = eagerly});
      EXPECT_TRUE(throws<InvalidArgument>(
          [&] { model.fit(x_, spoiled(6, bad), in_order()); },
          {"fit: the loss is", "in step 7 of epoch 1", "weights are those before it",
           "values in x and y", "smaller learning_rate (0.125 now)"}));
      FitOptions six = in_order();
      six.epochs = 1;
      six.steps_per_epoch = 6;
      twin.fit(x_, y_, six);
      EXPECT_EQ(values_of(model.weights()), values_of(twin.weights()));
      EXPECT_EQ(values_of(optimizer.variables()), values_of(same.variables()));
    }
  }
}

TEST_F(LossWatchTest, EveryOptimizerLeavesItsStateAlone) {
  const std::vector<optimizers::Optimizer> all = {
      optimizers::SGD(0.1),
      optimizers::SGD(0.1, {.momentum = 0.9, .nesterov = true}),
      optimizers::RMSprop(0.1, {.momentum = 0.5, .centered = true}),
      optimizers::Adagrad(0.1),
      optimizers::Adam(0.1, {.amsgrad = true, .global_clipnorm = 1.0}),
      optimizers::AdamW(0.1),
      optimizers::SGD(0.1, {.gradient_accumulation_steps = 2}),
      optimizers::Adam(optimizers::schedules::CosineDecay(0.1, 100)),
  };
  for (const optimizers::Optimizer& optimizer : all) {
    const Sequential model = normalised();
    model.compile({.optimizer = optimizer, .loss = "mse"});
    const auto batch = [&](const Tensor& y, int64_t n) {
      model.train_on_batch({x_.rows(n * kBatch, (n + 1) * kBatch)},
                           {y.rows(n * kBatch, (n + 1) * kBatch)});
    };
    for (const int64_t n : {0, 1, 2}) {
      batch(y_, n);
      const Values weights = values_of(model.weights());
      const Values state = values_of(optimizer.variables());
      EXPECT_TRUE(throws<InvalidArgument>([&] { batch(spoiled(n, kNaN), n); },
                                          {"train_on_batch: the loss is nan in this batch"}));
      EXPECT_EQ(values_of(model.weights()), weights) << optimizer.name();
      EXPECT_EQ(values_of(optimizer.variables()), state) << optimizer.name();
    }
    EXPECT_EQ(optimizer.iterations().value().item<int64_t>(), 3);
  }
}

TEST_F(LossWatchTest, APenaltyAndAnyOutputCount) {
  const auto x = Input({4});
  const Model model({x}, {Dense(1)(x), Dense(1, {.kernel_regularizer = "l2"})(x)});
  model.compile({.optimizer = "sgd", .loss = {"mse", "mae"}});
  const Values before = values_of(model.weights());
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        model.fit({x_}, {y_, spoiled(0, kNaN)}, in_order());
      },
      {"in step 1 of epoch 1"}));
  EXPECT_EQ(values_of(model.weights()), before);
  model.weights()[2].assign(fill({4, 1}, kInfinity));
  const Values infinite = values_of(model.weights());
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        model.fit({x_}, {y_, y_}, in_order());
      },
      {"in step 1 of epoch 1"}));
  EXPECT_EQ(values_of(model.weights()), infinite);
}

TEST_F(LossWatchTest, WithTerminateOnNaNTrainingStopsInstead) {
  const Sequential model = normalised();
  const optimizers::SGD optimizer(0.1);
  model.compile({.optimizer = optimizer, .loss = "mse"});
  FitOptions options = in_order();
  options.epochs = 5;
  options.callbacks = {callbacks::TerminateOnNaN(1000)};
  const History history = model.fit(x_, spoiled(4, kNaN), options);
  EXPECT_EQ(history.epoch.size(), 1u);
  EXPECT_EQ(optimizer.iterations().value().item<int64_t>(), 4);
  for (const auto& weight : values_of(model.weights())) {
    for (const double value : weight) EXPECT_TRUE(std::isfinite(value));
  }
}

TEST_F(LossWatchTest, ALayerCalledTwiceMovesItsStatisticsTwice) {
  const auto trained = [&](bool by_fit) {
    random::set_seed(4);
    const auto x = Input({4});
    const BatchNormalization shared({.momentum = 0.5});
    const Model model({x}, {Dense(1)(shared(shared(x)))});
    model.compile({.optimizer = optimizers::SGD(0.0), .loss = "mse"});
    if (by_fit) {
      model.train_on_batch({x_}, {y_});
    } else {
      model(Tensors{x_}, {.training = true});
    }
    return values_of(shared.weights());
  };
  const Values at_once = trained(false);
  const Values deferred = trained(true);
  for (size_t i = 0; i < at_once.size(); ++i) {
    for (size_t k = 0; k < at_once[i].size(); ++k) {
      EXPECT_NEAR(deferred[i][k], at_once[i][k], 1e-6);
    }
  }
}

TEST_F(LossWatchTest, ARateThatIsNoNumberIsFoundByTheNextLoss) {
  const Sequential model = normalised();
  model.compile({.optimizer = optimizers::SGD(kNaN), .loss = "mse"});
  EXPECT_TRUE(throws<InvalidArgument>([&] { model.fit(x_, y_, in_order()); },
                                      {"in step 2 of epoch 1", "learning_rate (nan now)"}));
}

TEST_F(LossWatchTest, AConditionIsABooleanScalar) {
  const Variable w(ones({2}));
  const optimizers::Adam adam(0.1);
  EXPECT_TRUE(
      throws<InvalidArgument>([&] { adam.apply_gradients({ones({2})}, {w}, ones({2})); },
                              {"apply_gradients: condition is float32[2], a bool[] is accepted"}));
  adam.apply_gradients({ones({2})}, {w}, Tensor(false));
  EXPECT_EQ(w.value().to_vector<float>(), (std::vector<float>{1, 1}));
  adam.apply_gradients({ones({2})}, {w}, Tensor(true));
  EXPECT_LT(w.value().to_vector<float>()[0], 1);
  EXPECT_EQ(adam.iterations().value().item<int64_t>(), 1);
}

}  // namespace
}  // namespace tandem::keras
