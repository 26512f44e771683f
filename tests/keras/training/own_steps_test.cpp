// Steps of one's own in fit, evaluate and predict, and metrics with any state.
#include <gtest/gtest.h>

#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/tandem.h"

namespace tandem::keras {
namespace {

using harness::throws;

class OwnStepsTest : public harness::FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
    x_ = random_uniform({50, 3}, -1, 1, {.seed = 1});
    y_ = matmul(x_, Tensor::from<float>({1, -2, 0.5}, {3, 1}));
  }

  static Sequential small_model() {
    return Sequential(
        {layers::Dense(4, {.activation = "tanh", .kernel_initializer = "ones", .input_shape = {3}}),
         layers::Dense(1, {.kernel_initializer = "ones"})});
  }

  /// What fit does by itself, written out.
  static CompileOptions written_out(const Layer& model, const optimizers::Optimizer& optimizer,
                                    const Metric& mae) {
    const Loss mse("mse");
    const auto train = [=](const StepBatch& batch) {
      GradientTape tape;
      const Tensor predicted = model(batch.x[0], {.training = true});
      const Tensor loss = mse(batch.y[0], predicted);
      const Variables weights = model.trainable_weights();
      optimizer.apply_gradients(tape.gradient(loss, weights), weights);
      mae.update_state(batch.y[0], predicted);
      return Tensors{loss};
    };
    const auto test = [=](const StepBatch& batch) {
      const Tensor predicted = model(batch.x[0]);
      mae.update_state(batch.y[0], predicted);
      return Tensors{mse(batch.y[0], predicted)};
    };
    return {.optimizer = optimizer, .train_step = train, .test_step = test, .step_metrics = {mae}};
  }

  FitOptions quiet() const {
    return {.batch_size = 16,
            .epochs = 3,
            .verbose = Verbose::silent,
            .validation_data = {{x_, y_}},
            .shuffle = false};
  }

  Tensor x_, y_;
};

TEST_F(OwnStepsTest, WrittenOutTheStepIsThatOfFit) {
  const auto history = [&](const distribute::Strategy& strategy, bool own) {
    const auto scope = strategy.scope();
    const Sequential model = small_model();
    const optimizers::SGD sgd(0.05);
    const Metric mae("mae");
    const CompileOptions usual{.optimizer = sgd, .loss = "mse", .metrics = {mae}};
    model.compile(own ? written_out(model, sgd, mae) : usual);
    return model.fit(x_, y_, quiet()).history;
  };
  const distribute::OneDeviceStrategy alone("/CPU:0");
  const auto expected = history(alone, false);
  ASSERT_EQ(expected.size(), 4u);
  for (const auto& got : {history(alone, true), history(distribute::MirroredStrategy(), true)}) {
    ASSERT_EQ(got.size(), expected.size());
    for (const auto& [name, values] : expected) {
      for (size_t i = 0; i < values.size(); ++i) {
        EXPECT_NEAR(got.at(name)[i], values[i], 1e-5) << name << " " << i;
      }
    }
  }
}

/// Two networks, two optimizers, two losses: what no loss of compile can say.
TEST_F(OwnStepsTest, TrainTwoNetworksAgainstEachOther) {
  const Sequential maker({layers::Dense(1, {.kernel_initializer = "zeros", .input_shape = {1}})});
  const Sequential judge({layers::Dense(1, {.kernel_initializer = "ones", .input_shape = {1}})});
  const Layer make = maker, judging = judge;  // A step that held its model would keep it alive.
  const optimizers::Adam for_maker(0.05), for_judge(0.05);
  const Loss loss = losses::BinaryCrossentropy({.from_logits = true});
  const auto step = [=](const StepBatch& batch) {
    const Tensor& real = batch.x[0];
    const Tensor noise = random_uniform(real.shape(), -1, 1);
    const auto apply = [](const auto& optimizer, const Layer& model, auto loss_of) {
      GradientTape tape;
      const Tensor value = loss_of();
      const Variables weights = model.trainable_weights();
      optimizer.apply_gradients(tape.gradient(value, weights), weights);
      return value;
    };
    const Tensor judged = apply(for_judge, judging, [&] {
      return loss(ones_like(real), judging(real)) + loss(zeros_like(real), judging(make(noise)));
    });
    const Tensor made =
        apply(for_maker, make, [&] { return loss(ones_like(real), judging(make(noise))); });
    return Tensors{judged, made};
  };
  maker.compile({.optimizer = for_maker, .train_step = step, .step_logs = {"judge", "maker"}});
  const Tensor x = random_uniform({64, 1}, 2, 3, {.seed = 4});
  const auto batches = data::Dataset::from_tensor_slices(x).batch(16);
  const History history = maker.fit(batches, {.epochs = 20, .verbose = Verbose::silent});
  EXPECT_EQ(history.history.size(), 2u);
  EXPECT_EQ(history.history.at("judge").size(), 20u);
  EXPECT_GT(maker.get_weights()[1].to_vector<float>()[0], 0.3);  // It moves towards the real ones.
  EXPECT_TRUE(throws<FailedPrecondition>([&] { maker.evaluate(batches); },
                                         {"evaluate", "test_step or loss"}));
}

TEST_F(OwnStepsTest, PredictIsWhatItsStepSays) {
  const Sequential model = small_model();
  const Tensor plain = model.predict(x_);
  model.compile({.loss = "mse", .predict_step = [net = Layer(model)](const Tensors& inputs) {
                   return Tensors{net(inputs[0]) * 2.0};
                 }});
  EXPECT_LT(reduce_max(abs(model.predict(x_, {.batch_size = 7}) - plain * 2.0)).item<float>(),
            1e-5);
  model.compile({.loss = "mse"});
  EXPECT_LT(reduce_max(abs(model.predict(x_) - plain)).item<float>(), 1e-6);
}

TEST_F(OwnStepsTest, SayWhatTheyShouldReturn) {
  const Sequential model = small_model();
  const auto fit = [&](StepFn step) {
    return [&, step] {
      model.compile({.train_step = step});
      model.fit(x_, y_, {.verbose = Verbose::silent});
    };
  };
  EXPECT_TRUE(throws<InvalidArgument>(fit([](const StepBatch&) { return Tensors(); }),
                                      {"train_step", "0 values", "names 1"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      fit([](const StepBatch& batch) { return Tensors{batch.x[0]}; }), {"'loss' is", "a scalar"}));
}

/// Counts of a confusion matrix; the metric is the part on its diagonal.
Metric confusion() {
  return Metric("confusion", {.shape = {2, 2},
                              .delta =
                                  [](const Tensor& y_true, const Tensor& y_pred, const Tensor&) {
                                    const auto classes = [](const Tensor& y) {
                                      return one_hot(cast(reshape(y > 0.0, {-1}), DType::int64), 2,
                                                     {.dtype = DType::float64});
                                    };
                                    return matmul(transpose(classes(y_true)), classes(y_pred));
                                  },
                              .value =
                                  [](const Tensor& state) {
                                    return reduce_sum(state * eye(2, 2, DType::float64)) /
                                           reduce_sum(state);
                                  }});
}

TEST_F(OwnStepsTest, MetricsHaveAnyState) {
  for (const distribute::Strategy& strategy :
       {distribute::Strategy(distribute::OneDeviceStrategy("/CPU:0")),
        distribute::Strategy(distribute::MirroredStrategy())}) {
    const auto scope = strategy.scope();
    const Sequential model = small_model();
    model.compile({.loss = "mse",
                   .metrics = {"mae", confusion(), metrics::Precision({.threshold = 0}),
                               metrics::Recall({.threshold = 0})}});
    const Tensor is_one = cast(y_ > 0.0, DType::float32);
    const Logs logs = model.evaluate(x_, is_one, {.batch_size = 7, .verbose = Verbose::silent});
    const auto said = model.predict(x_).to_vector<float>();
    const auto truth = is_one.to_vector<float>();
    double right = 0, hits = 0, said_one = 0, ones = 0;
    for (size_t i = 0; i < said.size(); ++i) {
      right += (said[i] > 0) == (truth[i] > 0);
      hits += said[i] > 0 && truth[i] > 0;
      said_one += said[i] > 0;
      ones += truth[i] > 0;
    }
    EXPECT_NEAR(logs.at("confusion"), right / static_cast<double>(said.size()), 1e-12);
    EXPECT_NEAR(logs.at("precision"), hits / said_one, 1e-12);
    EXPECT_NEAR(logs.at("recall"), hits / ones, 1e-12);
  }
}

TEST_F(OwnStepsTest, AMetricOfItsOwnStateCountsAndForgets) {
  const Metric metric = confusion();
  const Tensor yes = ones({3, 1}), no = -yes;
  metric.update_state(yes, yes);
  metric.update_state(yes, no);
  EXPECT_FALSE(metric.is_mean());
  EXPECT_EQ(metric.state().value().to_vector<double>(), (std::vector<double>{0, 0, 3, 3}));
  EXPECT_EQ(metric.result(), 0.5);
  metric.reset_state();
  metric.update_state(no, no);
  EXPECT_EQ(metric.result(), 1.0);
  EXPECT_TRUE(throws<InvalidArgument>(
      [] { Metric("empty", Metric::Stateful{.shape = {2}, .delta = {}, .value = {}}); },
      {"empty", "delta and value"}));
}

}  // namespace
}  // namespace tandem::keras
