#include "tandem/keras/metrics.h"

#include <gtest/gtest.h>

#include <limits>

#include "fixtures/keras_values.h"
#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/tandem.h"

namespace tandem::keras {
namespace {

using distribute::MirroredStrategy;
using harness::throws;
using namespace metrics;

constexpr double kTolerance = 1e-12;

/// A metric of the file and its arguments.
struct Case {
  std::string name;
  std::function<Metric()> make;
  std::string y_true;
  std::string y_pred;
};

std::vector<Case> cases() {
  return {
      {"categorical_accuracy", [] { return CategoricalAccuracy(); }, "soft", "scores"},
      {"sparse_categorical_accuracy", [] { return SparseCategoricalAccuracy(); }, "classes",
       "scores"},
      {"binary_accuracy", [] { return BinaryAccuracy(); }, "binary", "probability"},
      {"binary_accuracy_many", [] { return BinaryAccuracy({.threshold = 0.3}); }, "many_binary",
       "probabilities"},
      {"top_1", [] { return TopKCategoricalAccuracy({.k = 1}); }, "soft", "scores"},
      {"top_2", [] { return TopKCategoricalAccuracy({.k = 2}); }, "one_hot", "scores"},
      {"sparse_top_2", [] { return SparseTopKCategoricalAccuracy({.k = 2}); }, "classes", "scores"},
      {"mean_squared_error", [] { return MeanSquaredError(); }, "targets", "scores"},
      {"mean_absolute_error", [] { return MeanAbsoluteError(); }, "targets", "scores"},
  };
}

using Metrics = harness::FreshDevices;

TEST_F(Metrics, AreThoseOfKeras) {
  for (const Case& c : cases()) {
    const Metric metric = c.make();
    EXPECT_EQ(metric.result(), 0) << c.name;
    const Tensor y_true = keras_value(c.y_true);
    const Tensor y_pred = keras_value(c.y_pred);
    metric.update_state(y_true, y_pred);
    const double expected = keras_value("metric." + c.name).item<double>();
    EXPECT_NEAR(metric.result(), expected, kTolerance) << c.name;
    metric.reset_state();
    EXPECT_EQ(metric.result(), 0) << c.name;
    metric.update_state(y_true, y_pred, keras_value("sample_weight"));
    EXPECT_NEAR(metric.result(), keras_value("metric." + c.name + ".weighted").item<double>(),
                kTolerance)
        << c.name;
  }
  const SparseCategoricalAccuracy sequence;
  sequence.update_state(keras_value("sequence_classes"), keras_value("sequence"),
                        keras_value("sequence_weight"));
  EXPECT_NEAR(sequence.result(), keras_value("metric.sequence.weighted").item<double>(),
              kTolerance);
}

TEST_F(Metrics, MeanIsOfValuesOfAnyShape) {
  const Mean mean;
  mean.update_state(keras_value("targets"), keras_value("sample_weight"));
  mean.update_state(keras_value("sequence_weight"));
  EXPECT_NEAR(mean.result(), keras_value("metric.mean").item<double>(), kTolerance);
  mean.reset_state();
  mean.update_state(Tensor(3.0f));
  mean.update_state(Tensor::of({1, 0}));
  EXPECT_DOUBLE_EQ(mean.result(), 4.0 / 3);
  const Metric handle = mean;
  EXPECT_TRUE(throws<InvalidArgument>([&] { handle.update_state(Tensor(1.0), Tensor(1.0)); },
                                      {"mean: a Mean is of values"}));
}

TEST_F(Metrics, AreFoundByNameAndKeepIt) {
  for (const char* name :
       {"accuracy", "acc", "mse", "mae", "categorical_accuracy", "sparse_categorical_accuracy",
        "binary_accuracy", "top_k_categorical_accuracy", "sparse_top_k_categorical_accuracy",
        "categorical_crossentropy", "mean_squared_error"}) {
    EXPECT_EQ(Metric(name).name(), name);
  }
  EXPECT_EQ(MeanSquaredError().name(), "mean_squared_error");
  const Metric mae = "mae";
  mae.update_state(keras_value("targets"), keras_value("scores"));
  EXPECT_NEAR(mae.result(), keras_value("metric.mean_absolute_error").item<double>(), kTolerance);
  const Metric entropy = "categorical_crossentropy";
  entropy.update_state(keras_value("one_hot"), keras_value("sure"));
  EXPECT_NEAR(entropy.result(), keras_value("loss.categorical.sum_over_batch_size").item<double>(),
              kTolerance);
  EXPECT_TRUE(throws<InvalidArgument>(
      [] { Metric("precise"); },
      {"metric: 'precise' is unknown; there are 'accuracy'", "'binary_accuracy'", "'mse'"}));
}

TEST_F(Metrics, AccuracyIsChosenByTheShapes) {
  const auto accuracy = [](const Tensor& y_true, const Tensor& y_pred) {
    const Metric metric = "accuracy";
    metric.update_state(y_true, y_pred);
    return metric.result();
  };
  const Tensor scores = keras_value("scores");
  const Tensor classes = keras_value("classes");
  const double sparse = keras_value("metric.sparse_categorical_accuracy").item<double>();
  EXPECT_NEAR(accuracy(cast(classes, DType::uint8), scores), sparse, kTolerance);
  EXPECT_NEAR(accuracy(expand_dims(classes, 1), scores), sparse, kTolerance);
  EXPECT_NEAR(accuracy(cast(keras_value("one_hot"), DType::int32), scores), sparse, kTolerance);
  EXPECT_NEAR(accuracy(keras_value("soft"), scores),
              keras_value("metric.categorical_accuracy").item<double>(), kTolerance);
  const double binary = keras_value("metric.binary_accuracy").item<double>();
  const Tensor truth = keras_value("binary"), probability = keras_value("probability");
  EXPECT_NEAR(accuracy(truth, probability), binary, kTolerance);
  EXPECT_NEAR(accuracy(squeeze(truth), probability), binary, kTolerance);
  EXPECT_NEAR(accuracy(squeeze(truth), squeeze(probability)), binary, kTolerance);
}

TEST_F(Metrics, TopKCountsTiesInAndWhatIsNotFiniteOut) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const auto right = [](const std::vector<double>& scores, int64_t label, int k) {
    const SparseTopKCategoricalAccuracy metric({.k = k});
    metric.update_state(Tensor::of({label}), Tensor::from(scores, {1, 4}));
    return metric.result();
  };
  EXPECT_EQ(right({1, 3, 3, 2}, 2, 1), 1);
  EXPECT_EQ(right({1, 3, 3, 2}, 3, 2), 0);
  EXPECT_EQ(right({1, 3, 3, 2}, 3, 3), 1);
  EXPECT_EQ(right({-1, -3, -3, -2}, 0, 1), 1);
  EXPECT_EQ(right({1, kNan, 3, 2}, 2, 1), 0);
  EXPECT_EQ(right({1, 3, 3, 2}, 4, 4), 0);
  EXPECT_EQ(right({1, 3, 3, 2}, -1, 4), 0);
  EXPECT_TRUE(throws<InvalidArgument>([] { TopKCategoricalAccuracy({.k = 0}); },
                                      {"top_k_categorical_accuracy: k is 0"}));
}

TEST_F(Metrics, MayBeAnyFunction) {
  const Metric largest = [](const Tensor& y_true, const Tensor& y_pred) {
    return reduce_max(abs(y_true - y_pred), {.axes = {{1}}});
  };
  EXPECT_EQ(largest.name(), "metric");
  largest.update_state(Tensor::of({{1.f, 2.f}, {3.f, 4.f}}), Tensor::of({{1.f, 5.f}, {2.f, 4.f}}));
  EXPECT_DOUBLE_EQ(largest.result(), 2);
}

TEST_F(Metrics, NameTheShapesThatDoNotFit) {
  const Metric accuracy = "accuracy";
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        accuracy.update_state(zeros({5}), zeros({6, 4}));
      },
      {"accuracy: y_true [5] and y_pred [6,4] do not fit"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        accuracy.update_state(zeros({6}), zeros({6, 4}), zeros({5}));
      },
      {"accuracy: sample_weight [5] does not fit values [6]"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { Metric::value_of(zeros({3}, DType::float64)); },
                                      {"a state is [2], total and count, not [3]"}));
}

TEST_F(Metrics, StatesMayBeSummedBeforeTheyAreRead) {
  const SparseCategoricalAccuracy metric;
  const Tensor classes = keras_value("classes"), scores = keras_value("scores");
  const Tensor sum = metric.state_delta(classes.rows(0, 1), scores.rows(0, 1)) +
                     metric.state_delta(classes.rows(1, 6), scores.rows(1, 6));
  EXPECT_NEAR(Metric::value_of(sum).item<double>(),
              keras_value("metric.sparse_categorical_accuracy").item<double>(), kTolerance);
  EXPECT_EQ(metric.result(), 0);
}

TEST_F(Metrics, AreTheSameOnAnyNumberOfReplicas) {
  for (const Case& c : cases()) {
    for (int64_t rows : {6, 2}) {
      double one = 0;
      for (int replicas : {1, 2, 3}) {
        restart();
        config::set_logical_cpus(std::vector<config::LogicalCpu>(static_cast<size_t>(replicas)));
        const MirroredStrategy strategy;
        const auto scope = strategy.scope();
        const Metric metric = c.make();
        const auto update =
            function([&](const Tensor& y_true, const Tensor& y_pred, const Tensor& weight) {
              metric.update_state(y_true, y_pred, weight);
            });
        const auto part = [&](const std::string& name) {
          return strategy.split(keras_value(name).rows(0, rows));
        };
        for (int step = 0; step < 2; ++step) {
          strategy.run(update, part(c.y_true), part(c.y_pred), part("sample_weight"));
        }
        EXPECT_NEAR(metric.state().value().at<double>({1}), rows == 6 ? 13.5 : 3, kTolerance)
            << c.name;
        if (replicas == 1) one = metric.result();
        EXPECT_NEAR(metric.result(), one, kTolerance) << c.name << " on " << replicas;
      }
    }
  }
}

TEST_F(Metrics, CopiesShareOneStateThatCheckpointsSave) {
  const Mean mean;
  mean.update_state(Tensor::of({1.0, 2.0}));
  EXPECT_EQ(mean.tracked_names(), (std::vector<std::string>{"state"}));
  const Mean copy = mean;
  copy.update_state(Tensor(6.0));
  EXPECT_DOUBLE_EQ(mean.result(), 3);
}

}  // namespace
}  // namespace tandem::keras
