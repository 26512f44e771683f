/// Which batches an epoch of fit, evaluate and predict sees.
#include <algorithm>

#include "harness/throws.h"
#include "keras/training/epoch_batches.h"
#include "keras/training/like_keras.h"

namespace tandem::keras {
namespace {

using data::Dataset;
using harness::throws;

/// Samples 0 to 19 with a truth of 0, and a model that returns them and does not learn: the loss of
/// an epoch is the mean of their squares and says which they were.
class FitSteps : public LikeKeras {
 protected:
  static Sequential model(int steps_per_execution = 1) {
    return linear({.optimizer = optimizers::SGD(0.0),
                   .loss = "mse",
                   .steps_per_execution = steps_per_execution},
                  /*use_bias=*/false);
  }
  static Tensor x() { return range(0, 20); }
  static Tensor y() { return zeros({20}); }
  static Dataset batches() { return Dataset::from_tensor_slices(x(), y()).batch(4); }

  /// So many batches of four, from the beginning again after the fifth, that do not say how many.
  static Dataset generated(int64_t count) {
    return Dataset::from_generator([count] {
      return [count, i = int64_t{0}]() mutable -> std::optional<std::pair<Tensor, Tensor>> {
        if (i == count) return std::nullopt;
        const int64_t first = i++ % 5 * 4;
        return std::pair(x().rows(first, first + 4), zeros({4}));
      };
    });
  }

  static FitOptions steps(int epochs, int64_t steps_per_epoch,
                          std::optional<int64_t> batch_size = {}) {
    FitOptions options = quiet(epochs, batch_size);
    options.steps_per_epoch = steps_per_epoch;
    return options;
  }
  static std::vector<double> losses(const Dataset& batches, const FitOptions& options) {
    return model().fit(batches, options).history.at("loss");
  }
  int64_t warnings_of_an_end() const { return warned_of("the data ended"); }
};

INSTANTIATE_TEST_SUITE_P(On, FitSteps, testing::Values(1, 2), replicas_name);

TEST_P(FitSteps, AnEpochGoesOnWhereTheLastOneEnded) {
  expect_near(losses(batches().repeat(), steps(5, 2)), {17.5, 137.5, 155.5, 61.5, 245.5}, "repeat");
  expect_near(losses(generated(12), steps(5, 2)), {17.5, 137.5, 155.5, 61.5, 245.5}, "generator");
  expect_near(losses(batches(), steps(7, 1)), {3.5, 31.5, 91.5, 183.5, 307.5, 3.5, 31.5}, "finite");
  expect_near(losses(batches(), steps(3, 5)), {123.5, 123.5, 123.5}, "all of it");
  EXPECT_EQ(warnings_of_an_end(), 0);
}

TEST_P(FitSteps, DataThatEndWithinAnEpochEndItAndBeginAnew) {
  const std::vector<double> three{17.5, 137.5, 307.5, 17.5, 137.5, 307.5};
  expect_near(losses(batches(), steps(6, 2)), three, "finite");
  EXPECT_EQ(warnings_of_an_end(), 1);
  EXPECT_EQ(warned_of("fit: the data ended after 1 of 2 steps; make steps_per_epoch smaller"), 1);
  expect_near(losses(generated(5), steps(6, 2)), three, "generator");
  expect_near(losses(batches(), steps(3, 7)), {123.5, 123.5, 123.5}, "too many");
  expect_near(losses(generated(5), steps(3, 7)), {123.5, 123.5, 123.5}, "too many of a generator");
  EXPECT_EQ(warnings_of_an_end(), 4);
}

TEST_P(FitSteps, TheEndOfAGeneratorIsFoundInTheNextEpoch) {
  expect_near(losses(generated(5), steps(3, 5)), {123.5, 0, 123.5}, "5 of 5");
  expect_near(losses(generated(5), steps(8, 1)), {3.5, 31.5, 91.5, 183.5, 307.5, 0, 3.5, 31.5},
              "1 of 5");
  EXPECT_EQ(warned_of("fit: the data ended after 0 of"), 2);
}

TEST_P(FitSteps, WithoutStepsAnEpochIsAllOfTheData) {
  expect_near(losses(batches(), quiet(3)), {123.5, 123.5, 123.5}, "finite");
  expect_near(losses(generated(5), quiet(3)), {123.5, 123.5, 123.5}, "generator");
  EXPECT_TRUE(warnings_.empty());
}

TEST_P(FitSteps, ArraysGoOnToo) {
  const auto fit = [&](const FitOptions& options) {
    return model().fit(x(), y(), options).history.at("loss");
  };
  expect_near(fit(steps(6, 2, 4)), {17.5, 137.5, 307.5, 17.5, 137.5, 307.5}, "batches of 4");
  EXPECT_EQ(warnings_of_an_end(), 1);
  // Without a batch size, the steps are all there is.
  expect_near(fit(steps(3, 2)), {123.5, 123.5, 123.5}, "2 steps");
  expect_near(fit(steps(3, 3)), {123.5, 123.5, 123.5}, "3 steps");
  EXPECT_EQ(warnings_of_an_end(), 1);
}

TEST_P(FitSteps, ShuffledArraysAreSeenOnceBeforeTheyAreShuffledAgain) {
  FitOptions options = steps(10, 1, 4);
  options.shuffle = true;
  const std::vector<double> each = model().fit(x(), y(), options).history.at("loss");
  for (const size_t pass : {0, 5}) {
    double sum = 0;
    for (size_t i = 0; i < 5; ++i) sum += each[pass + i];
    EXPECT_NEAR(sum / 5, 123.5, 1e-4);
  }
  EXPECT_NE(each[0], each[5]);
}

TEST_P(FitSteps, AFitStartsFromTheBeginningWhateverItsFirstEpochIs) {
  FitOptions options = steps(5, 2);
  options.initial_epoch = 3;
  expect_near(losses(batches().repeat(), options), {17.5, 137.5}, "from epoch 3 on");
}

TEST_P(FitSteps, AWayThroughTheDataHasTheNumberOfTheEpochItBeginsIn) {
  std::vector<int64_t> begun;
  const auto counted = Dataset::from_generator([&begun](int64_t epoch) {
    begun.push_back(epoch);
    return [i = 0]() mutable -> std::optional<std::pair<Tensor, Tensor>> {
      if (i++ == 3) return std::nullopt;
      return std::pair(ones({4}), zeros({4}));
    };
  });
  FitOptions options = steps(6, 2);
  options.initial_epoch = 1;
  model().fit(counted, options);
  EXPECT_EQ(begun, (std::vector<int64_t>{1, 3, 5}));
}

TEST_P(FitSteps, AnExecutionOfSeveralStepsIsNotCut) {
  std::string story;
  const auto told = [&](const Dataset& data, FitOptions options) {
    story.clear();
    options.callbacks = {callbacks::LambdaCallback(
        {.on_epoch_end = [&](TrainingRun&, int, Logs&) { story += "|"; },
         .on_batch_begin = [&](TrainingRun&, int64_t i) { story += "b" + std::to_string(i); },
         .on_batch_end = [&](TrainingRun&, int64_t i) { story += "e" + std::to_string(i); }})};
    return model(2).fit(data, options).history.at("loss");
  };
  expect_near(told(batches(), quiet(1)), {123.5}, "all");
  EXPECT_EQ(story, "b0e1b2e3b4e5|");
  expect_near(told(batches().repeat(), steps(4, 3)), {77.5, 108.5, 131.5, 146.5}, "repeat");
  EXPECT_EQ(story, "b0e1b2e3|b0e1b2e3|b0e1b2e3|b0e1b2e3|");
  expect_near(told(batches(), steps(4, 3)), {77.5, 307.5, 77.5, 307.5}, "finite");
  EXPECT_EQ(story, "b0e1b2e3|b0e1|b0e1b2e3|b0e1|");
}

TEST_P(FitSteps, ValidationStartsAnewEachTime) {
  const auto validated = [&](const ValidationData& held, std::optional<int64_t> most,
                             std::optional<int64_t> size = {}) {
    FitOptions options = steps(3, 2);
    options.validation_data = held;
    options.validation_steps = most;
    options.validation_batch_size = size;
    const History history = model().fit(batches().repeat(), options);
    expect_near(history.history.at("loss"), {17.5, 137.5, 155.5}, "loss");
    return history.history.at("val_loss");
  };
  const std::vector<double> two(3, 17.5);
  const std::vector<double> all(3, 123.5);
  expect_near(validated(batches(), 2), two, "data set");
  expect_near(validated(batches().repeat(), 2), two, "endless");
  expect_near(validated(generated(5), 2), two, "generator");
  expect_near(validated({x(), y()}, 2, 4), two, "arrays");
  expect_near(validated({x(), y()}, 2), all, "arrays cut in two");
  expect_near(validated(batches(), {}), all, "all of a data set");
  expect_near(validated(generated(5), {}), all, "all of a generator");
  EXPECT_TRUE(warnings_.empty());
  expect_near(validated(batches(), 7), all, "more than there is");
  EXPECT_EQ(warned_of("validation_data: the data ended after 5 of 7 steps; make validation_steps"),
            1);
}

TEST_P(FitSteps, EvaluateAndPredictTakeTheFirstSteps) {
  const Sequential model = this->model();
  const auto loss = [&](const Dataset& data, std::optional<int64_t> most) {
    return model.evaluate(data, {.verbose = Verbose::silent, .steps = most}).at("loss");
  };
  const auto predicted = [&](const Dataset& data, std::optional<int64_t> most) {
    return model.predict(data, {.steps = most}).shape()[0];
  };
  for (const Dataset& data : {batches(), generated(5)}) {
    EXPECT_NEAR(loss(data, {}), 123.5, 1e-4);
    EXPECT_NEAR(loss(data, 2), 17.5, 1e-4);
    EXPECT_EQ(predicted(data, {}), 20);
    EXPECT_EQ(predicted(data, 2), 8);
    EXPECT_TRUE(warnings_.empty());
    EXPECT_NEAR(loss(data, 7), 123.5, 1e-4);
    EXPECT_EQ(predicted(data, 7), 20);
    EXPECT_EQ(warned_of("evaluate: the data ended after 5 of 7 steps; make steps smaller"), 1);
    EXPECT_EQ(warned_of("predict: the data ended after 5 of 7 steps; make steps smaller"), 1);
    warnings_.clear();
  }
  EXPECT_NEAR(model.evaluate(x(), y(), {.batch_size = 4, .verbose = Verbose::silent, .steps = 2})
                  .at("loss"),
              17.5, 1e-4);
  EXPECT_NEAR(model.evaluate(x(), y(), {.verbose = Verbose::silent, .steps = 2}).at("loss"), 123.5,
              1e-4);
  EXPECT_EQ(model.predict(x(), {.batch_size = 4, .steps = 2}).shape()[0], 8);
  EXPECT_EQ(model.predict(x(), {.steps = 2}).shape()[0], 20);
}

class EndlessData : public FitSteps {
 protected:
  void TearDown() override {
    set_endless_patience(std::chrono::seconds(60));
    FitSteps::TearDown();
  }

  /// Stops after so many steps.
  static FitOptions stopped_after(int64_t steps) {
    FitOptions options = quiet(2);
    options.callbacks = {
        callbacks::LambdaCallback({.on_batch_end = [steps](TrainingRun& run, int64_t step) {
          if (step + 1 == steps) run.stop();
        }})};
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(On, EndlessData, testing::Values(1, 2), replicas_name);

TEST_P(EndlessData, IsWarnedOfOnce) {
  constexpr int64_t kMany = int64_t{1} << 40;
  set_endless_patience(std::chrono::hours(1));
  losses(batches().repeat(), stopped_after(20));
  EXPECT_TRUE(warnings_.empty());
  set_endless_patience(std::chrono::seconds(0));
  losses(batches().repeat(), stopped_after(20));
  EXPECT_EQ(warnings_.size(), 1u);
  EXPECT_EQ(warned_of("fit: the first epoch has taken"), 1);
  EXPECT_EQ(warned_of("repeat(). If they do not, give steps_per_epoch"), 1);
  losses(generated(kMany), stopped_after(20));
  EXPECT_EQ(warnings_.size(), 2u);
}

TEST_P(EndlessData, IsNotWarnedOfWhereTheNumberOfStepsIsKnown) {
  set_endless_patience(std::chrono::seconds(0));
  losses(batches(), quiet(2));
  losses(batches().repeat(), steps(2, 3));
  EXPECT_TRUE(warnings_.empty());
}

TEST_P(FitSteps, OptionsThatDoNotFitAreNamed) {
  const Sequential model = this->model();
  const auto refused = [&](const FitOptions& options,
                           std::initializer_list<std::string_view> words) {
    EXPECT_TRUE(throws<InvalidArgument>([&] { model.fit(batches(), options); }, words));
  };
  FitOptions options = quiet(1);
  options.validation_split = 0.5;
  refused(options, {"fit: validation_split goes with arrays", "validation_data"});
  options = quiet(1);
  options.sample_weight = ones({20});
  refused(options, {"fit: sample_weight goes with arrays"});
  options = quiet(1);
  options.validation_data = batches();
  options.validation_steps = 0;
  refused(options, {"validation_steps is 0, 1 or more"});
  options.validation_data = batches().take(0);
  options.validation_steps = {};
  refused(options, {"validation_data: the data set is empty"});
  EXPECT_TRUE(
      throws<InvalidArgument>([&] { model.evaluate(batches(), {.sample_weight = ones({20})}); },
                              {"evaluate: sample_weight goes with arrays"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { model.evaluate(x(), y(), {.steps = 0}); },
                                      {"evaluate: steps is 0, 1 or more"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { model.fit(generated(0), quiet(1)); },
                                      {"fit: the data set is empty"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { model.predict(generated(0)); },
                                      {"predict: the data set is empty"}));
}

}  // namespace
}  // namespace tandem::keras
