#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "harness/fresh_devices.h"
#include "harness/temp_folder.h"
#include "harness/throws.h"
#include "tandem/checkpoint.h"
#include "tandem/keras/layers.h"
#include "tandem/keras/model.h"
#include "tandem/ops.h"

namespace tandem::keras {
namespace {

using harness::throws;
using layers::Dense;

class FitTest : public harness::FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    random::set_seed(5);
    x_ = random_uniform({200, 4}, -1, 1);
    y_ = matmul(x_, Tensor::from<float>({1, -2, 3, 0.5}, {4, 1})) + 0.25;
  }

  static Sequential linear() { return Sequential({Dense(1, {.input_shape = {4}})}); }
  static Sequential compiled(const CompileOptions& options) {
    const Sequential model = linear();
    model.compile(options);
    return model;
  }
  static CompileOptions usual() {
    return {.optimizer = optimizers::Adam(0.05), .loss = "mse", .metrics = {"mae"}};
  }
  FitOptions quiet(int epochs, int64_t batch = 20) {
    return {.batch_size = batch, .epochs = epochs, .verbose = Verbose::silent};
  }

  Tensor x_, y_;
};

TEST_F(FitTest, LearnsAndTellsWhatItSaw) {
  const Sequential model = compiled(usual());
  const History history = model.fit(x_, y_, quiet(30));
  EXPECT_EQ(history.epoch.size(), 30u);
  for (const char* name : {"loss", "mae"}) EXPECT_EQ(history.history.at(name).size(), 30u);
  EXPECT_LT(history.history.at("loss").back(), 1e-3);
  EXPECT_LT(model.evaluate(x_, y_, {.verbose = Verbose::silent}).at("mae"), 0.05);
}

TEST_F(FitTest, EvaluateCountsEachSampleOnce) {
  const Sequential model = compiled(usual());
  const Tensor errors = model(x_) - y_;
  const double mse = reduce_mean(errors * errors).item<float>();
  for (int64_t batch : {200, 64, 7}) {
    const Logs logs = model.evaluate(x_, y_, {.batch_size = batch, .verbose = Verbose::silent});
    EXPECT_NEAR(logs.at("loss"), mse, 1e-5) << batch;
    EXPECT_NEAR(logs.at("mae"), reduce_mean(abs(errors)).item<float>(), 1e-5) << batch;
  }
}

TEST_F(FitTest, AStepComputesTheLossAndThePenaltyOnce) {
  for (const bool eagerly : {false, true}) {
    int losses = 0, penalties = 0;
    const Loss counted("counted", [&](const Tensor& y_true, const Tensor& y_pred) {
      ++losses;
      return reduce_mean(square(y_true - y_pred), {.axes = {{1}}});
    });
    const Regularizer regularizer([&](const Tensor& weights) {
      ++penalties;
      return 0.01 * reduce_sum(square(weights));
    });
    const Sequential model({Dense(1, {.kernel_regularizer = regularizer, .input_shape = {4}})});
    model.compile({.optimizer = "sgd", .loss = counted, .run_eagerly = eagerly});
    losses = penalties = 0;
    model.train_on_batch({x_}, {y_});
    EXPECT_EQ(losses, 1) << eagerly;
    EXPECT_EQ(penalties, 1) << eagerly;
    model.evaluate(x_, y_, {.batch_size = 200, .verbose = Verbose::silent});
    EXPECT_EQ(losses, 2) << eagerly;
    EXPECT_EQ(penalties, 2) << eagerly;
    model.train_on_batch({x_}, {y_});
    EXPECT_EQ(losses, eagerly ? 3 : 2);  // A traced step is there already.
    EXPECT_EQ(penalties, losses);
  }
}

TEST_F(FitTest, PredictReturnsRowsInOrder) {
  const Sequential model = linear();
  const auto expected = model(x_).to_vector<float>();
  const auto found = model.predict(x_, {.batch_size = 33}).to_vector<float>();
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5);
}

TEST_F(FitTest, EagerlyAndCompiledAreTheSame) {
  std::vector<double> losses[2];
  for (const bool eager : {false, true}) {
    random::set_seed(9);
    CompileOptions options = usual();
    options.run_eagerly = eager;
    losses[eager] = compiled(options).fit(x_, y_, quiet(3)).history.at("loss");
  }
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(losses[0][i], losses[1][i], 1e-5);
}

TEST_F(FitTest, TheLastSamplesValidate) {
  const Sequential model = compiled(usual());
  FitOptions options = quiet(4);
  options.validation_split = 0.25;
  options.validation_freq = 2;
  const History history = model.fit(x_, y_, options);
  EXPECT_EQ(history.history.at("val_loss").size(), 2u);
  const Logs logs =
      model.evaluate(x_.rows(150, 200), y_.rows(150, 200), {.verbose = Verbose::silent});
  EXPECT_NEAR(history.history.at("val_loss").back(), logs.at("loss"), 1e-6);
}

TEST_F(FitTest, WeightsOfZeroLeaveSamplesOut) {
  const Tensor keep = concat({ones({100}), zeros({100})}, 0);
  random::set_seed(2);
  const Sequential a = compiled({.optimizer = optimizers::SGD(0.1), .loss = "mse"});
  const Sequential b = compiled({.optimizer = optimizers::SGD(0.05), .loss = "mse"});
  b.set_weights(a.get_weights());
  FitOptions options = quiet(1, 200);
  options.sample_weight = keep;
  a.fit(x_, y_, options);
  b.fit(x_.rows(0, 100), y_.rows(0, 100), quiet(1, 100));
  const auto one = a.get_weights()[0].to_vector<float>();
  const auto other = b.get_weights()[0].to_vector<float>();
  for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], other[i], 1e-6);
}

TEST_F(FitTest, ProgressIsALinePerEpochAwayFromATerminal) {
  std::ostringstream out;
  FitOptions options{.batch_size = 32, .epochs = 2, .output = &out};
  compiled(usual()).fit(x_, y_, options);
  const std::string text = out.str();
  EXPECT_NE(text.find("Epoch 1/2\n7/7 - "), std::string::npos) << text;
  EXPECT_NE(text.find("/step - "), std::string::npos) << text;
  EXPECT_NE(text.find(" samples/s - loss: "), std::string::npos) << text;
  EXPECT_NE(text.find(" - mae: "), std::string::npos) << text;
  EXPECT_NE(text.find("time per step: input "), std::string::npos) << text;
}

TEST_F(FitTest, CallbacksAreCalledInTurn) {
  std::string story;
  const auto log = [&](const char* what) {
    return [&story, what](const auto&...) { story += what; };
  };
  const callbacks::LambdaCallback teller({.on_train_begin = log("("),
                                          .on_train_end = log(")"),
                                          .on_epoch_begin = log("["),
                                          .on_epoch_end = log("]"),
                                          .on_batch_end = log(".")});
  FitOptions options = quiet(2, 100);
  options.callbacks = {teller};
  compiled(usual()).fit(x_, y_, options);
  EXPECT_EQ(story, "([..][..])");
}

TEST_F(FitTest, EarlyStoppingStopsAndRestores) {
  const Sequential model = compiled({.optimizer = optimizers::SGD(10.0), .loss = "mse"});
  const auto stopper = std::make_shared<callbacks::EarlyStopping>(callbacks::EarlyStoppingOptions{
      .monitor = "loss", .patience = 2, .restore_best_weights = true});
  FitOptions options = quiet(20, 200);
  options.callbacks = {stopper};
  const History history = model.fit(x_, y_, options);
  ASSERT_TRUE(stopper->stopped_epoch().has_value());
  EXPECT_EQ(history.epoch.size(), static_cast<size_t>(*stopper->stopped_epoch()) + 1);
  EXPECT_EQ(stopper->best_epoch(), 0);
}

TEST_F(FitTest, LearningRatesFollowTheirSchedules) {
  const Sequential model = compiled(usual());
  const harness::TempFolder folder;
  const auto path = folder / "log.csv";
  FitOptions options = quiet(3);
  options.callbacks = {
      callbacks::LearningRateScheduler([](int epoch, double) { return 0.1 / (1 + epoch); }),
      callbacks::CSVLogger(path)};
  const History history = model.fit(x_, y_, options);
  EXPECT_EQ(history.history.at("learning_rate"), (std::vector<double>{0.1, 0.05, 0.1 / 3}));
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, "epoch,learning_rate,loss,mae");
  int rows = 0;
  while (std::getline(file, line)) ++rows;
  EXPECT_EQ(rows, 3);
}

TEST_F(FitTest, ACheckpointIsWrittenForEachBetterEpoch) {
  const harness::TempFolder folder;
  const Sequential model = compiled(usual());
  FitOptions options = quiet(3);
  options.callbacks = {callbacks::ModelCheckpoint((folder / "at-{epoch:02d}").string(),
                                                  {.monitor = "loss", .save_best_only = true})};
  model.fit(x_, y_, options);
  const auto trained = model.get_weights()[0].to_vector<float>();
  const Sequential other = linear();
  train::Checkpoint({{"model", other}}).restore(folder / "at-03").assert_consumed();
  EXPECT_EQ(other.get_weights()[0].to_vector<float>(), trained);
  options.callbacks = {callbacks::ModelCheckpoint((folder / "{nothing}").string())};
  EXPECT_TRUE(throws<InvalidArgument>([&] { model.fit(x_, y_, options); }, {"{nothing}"}));
  options.callbacks = {callbacks::EarlyStopping()};
  EXPECT_TRUE(throws<InvalidArgument>([&] { model.fit(x_, y_, options); },
                                      {"val_loss", "loss, mae", "validation_data"}));
}

TEST_F(FitTest, TheRateFallsOnAPlateau) {
  const Sequential model = compiled({.optimizer = optimizers::SGD(0.0), .loss = "mse"});
  FitOptions options = quiet(5, 200);
  options.callbacks = {
      callbacks::LambdaCallback(
          {.on_train_begin = [](TrainingRun& run) { run.set_learning_rate(1e-20); }}),
      callbacks::ReduceLROnPlateau({.monitor = "loss", .factor = 0.5, .patience = 2})};
  const auto rates = model.fit(x_, y_, options).history.at("learning_rate");
  EXPECT_EQ(rates, (std::vector<double>{1e-20, 1e-20, 1e-20, 0.5e-20, 0.5e-20}));
}

TEST_F(FitTest, ALossThatIsNoNumberEndsTheTraining) {
  const Sequential model = compiled(usual());
  const Tensor bad = y_ * std::numeric_limits<double>::quiet_NaN();
  FitOptions options = quiet(3);
  options.callbacks = {callbacks::TerminateOnNaN()};
  int64_t steps = 0;
  options.callbacks.push_back(
      callbacks::LambdaCallback({.on_batch_end = [&](TrainingRun&, int64_t) { ++steps; }}));
  const History history = model.fit(x_, bad, options);
  EXPECT_EQ(steps, 1);
  EXPECT_EQ(history.epoch.size(), 1u);
}

TEST_F(FitTest, MistakesAreNamedBeforeAnythingChanges) {
  const Sequential model = linear();
  const auto before = model.get_weights()[0].to_vector<float>();
  EXPECT_TRUE(throws<FailedPrecondition>([&] { model.fit(x_, y_); }, {"fit", "not compiled"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { model.compile({.optimizer = "adamm", .loss = "mse"}); },
                                      {"adamm", "adam"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { model.compile({.loss = "msee"}); }, {"msee", "mse"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] { model.compile({.loss = "mse", .metrics = {"accurcy"}}); }, {"accurcy", "accuracy"}));
  model.compile(usual());
  EXPECT_TRUE(throws<InvalidArgument>([&] { model.fit(x_, y_.rows(0, 10), quiet(1)); },
                                      {"y 0 has 10 rows, x has 200"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { model.fit(x_.rows(0, 0), y_.rows(0, 0), quiet(1)); },
                                      {"no samples"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { model.fit(ones({200, 5}), y_, quiet(1)); }, {"dense"}));
  EXPECT_EQ(model.get_weights()[0].to_vector<float>(), before);
  EXPECT_NO_THROW(model.fit(x_, y_, quiet(1)));
}

}  // namespace
}  // namespace tandem::keras
