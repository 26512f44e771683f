/// Metrics: means over all examples since the last reset, such as the part that was classified
/// rightly.
///
///   keras::metrics::SparseCategoricalAccuracy accuracy;
///   for (..) accuracy.update_state(y_true, y_pred);
///   double so_far = accuracy.result();
///
/// A Metric is a cheap handle; copies share one state. Its state is a variable in float64: {total,
/// count}, or what a metric of one's own makes of it. Create it where the model is created (the
/// same device or strategy scope); then update_state may be called inside functions and
/// `strategy.run`, where the states of the replicas are summed. Updates from several threads at
/// once are the caller's to order.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>

#include "tandem/trackable.h"
#include "tandem/variable.h"

namespace tandem::keras {

class TANDEM_API Metric : public Trackable {
 public:
  /// The values of the examples [batch, ..], of any dtype, from the truth and the predictions; or a
  /// scalar, the mean over the batch, which counts as one example and takes no sample weights.
  using PerExample = std::function<Tensor(const Tensor& y_true, const Tensor& y_pred)>;

  /// `name` is Keras's, and stays the metric's name: "accuracy" or "acc" (binary, sparse or
  /// categorical accuracy, by the shapes of truth and predictions), "binary_accuracy",
  /// "categorical_accuracy", "sparse_categorical_accuracy", "top_k_categorical_accuracy",
  /// "sparse_top_k_categorical_accuracy", and the names of losses. Throws InvalidArgument for
  /// another, listing these.
  Metric(const std::string& name);  // NOLINT(google-explicit-constructor)
  Metric(const char* name);         // NOLINT(google-explicit-constructor)

  /// The mean of one's own function.
  Metric(const std::string& name, PerExample per_example);

  /// A metric with another state, such as the counts of a confusion matrix.
  struct Stateful {
    Shape shape;  ///< The state's. It is all zeros when nothing was counted.
    /// What these examples add to the state, as float64: states of batches and of replicas are
    /// summed. `sample_weight` may be undefined.
    std::function<Tensor(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight)>
        delta;
    /// The metric that a state stands for: a float64 scalar.
    std::function<Tensor(const Tensor& state)> value;
  };
  Metric(const std::string& name, Stateful stateful);

  /// The same with the name "metric".
  template <class F>
  requires(!std::derived_from<std::remove_cvref_t<F>, Metric> &&
           std::is_invocable_r_v<Tensor, const F&, const Tensor&, const Tensor&>)
      Metric(F per_example)  // NOLINT(google-explicit-constructor)
      : Metric("metric", PerExample(std::move(per_example))) {}

  const std::string& name() const;

  /// Counts these examples in. `sample_weight`, which may be undefined, has the leading axes of the
  /// values, any of size 1: an example counts as often as its weight says, and not at all with a
  /// weight of 0 or false. Throws InvalidArgument, naming the metric and the shapes, for those that
  /// do not fit.
  void update_state(const Tensor& y_true, const Tensor& y_pred,
                    const Tensor& sample_weight = {}) const;

  /// What update_state would add to the state: float64 {total, count}, or what it has instead.
  Tensor state_delta(const Tensor& y_true, const Tensor& y_pred,
                     const Tensor& sample_weight = {}) const;

  /// The metric so far; 0 when nothing was counted.
  double result() const;

  /// The metric that a state {total, count} stands for, a float64 scalar; states may be summed.
  /// Throws InvalidArgument unless it has two elements.
  static Tensor value_of(const Tensor& state);

  /// The metric that a state of this metric stands for.
  Tensor result_of(const Tensor& state) const;

  /// True where the state is {total, count}.
  bool is_mean() const;

  /// Forgets all examples.
  void reset_state() const;

  const Variable& state() const;

 private:
  struct Body;
  std::shared_ptr<const Body> body_;
};

/// Keras's metrics, with its defaults and arithmetic.
namespace metrics {

using keras::Metric;

/// The mean of values themselves.
class TANDEM_API Mean : public Metric {
 public:
  explicit Mean(const std::string& name = "mean");

  /// `values` [batch, ..] of any dtype, or a scalar, which is one example.
  void update_state(const Tensor& values, const Tensor& sample_weight = {}) const;
  Tensor state_delta(const Tensor& values, const Tensor& sample_weight = {}) const;
};

struct BinaryAccuracyOptions {
  double threshold = 0.5;  ///< Predictions above it say 1.
  std::string name = "binary_accuracy";
};

/// How often predictions are on the side of the threshold that the truth, 0 or 1, is on. Both have
/// one shape, or are [batch] and [batch, 1].
class TANDEM_API BinaryAccuracy : public Metric {
 public:
  explicit BinaryAccuracy(const BinaryAccuracyOptions& options = {});
};

/// How often the class with the highest prediction is the one with the highest truth, both
/// [.., classes].
class TANDEM_API CategoricalAccuracy : public Metric {
 public:
  explicit CategoricalAccuracy(const std::string& name = "categorical_accuracy");
};

/// How often the class with the highest prediction [.., classes] is that of the truth, [..] or
/// [.., 1].
class TANDEM_API SparseCategoricalAccuracy : public Metric {
 public:
  explicit SparseCategoricalAccuracy(const std::string& name = "sparse_categorical_accuracy");
};

struct TopKCategoricalAccuracyOptions {
  int k = 5;
  std::string name = "top_k_categorical_accuracy";
};

/// How often fewer than k classes have a higher prediction than the true one. Rows with a
/// prediction that is not finite are wrong.
class TANDEM_API TopKCategoricalAccuracy : public Metric {
 public:
  /// Throws InvalidArgument unless k is positive.
  explicit TopKCategoricalAccuracy(const TopKCategoricalAccuracyOptions& options = {});
};

struct SparseTopKCategoricalAccuracyOptions {
  int k = 5;
  std::string name = "sparse_top_k_categorical_accuracy";
};

/// The same for the truth as classes [..] or [.., 1].
class TANDEM_API SparseTopKCategoricalAccuracy : public Metric {
 public:
  explicit SparseTopKCategoricalAccuracy(const SparseTopKCategoricalAccuracyOptions& options = {});
};

struct ThresholdOptions {
  double threshold = 0.5;  ///< Predictions above it say 1.
  std::string name{};      ///< The metric's own unless given.
};

/// The part of the examples said to be 1 that are 1; 0 when none is said to be.
class TANDEM_API Precision : public Metric {
 public:
  explicit Precision(const ThresholdOptions& options = {});
};

/// The part of the examples that are 1 which are said to be; 0 when none is.
class TANDEM_API Recall : public Metric {
 public:
  explicit Recall(const ThresholdOptions& options = {});
};

/// The means of these losses.
class TANDEM_API MeanSquaredError : public Metric {
 public:
  explicit MeanSquaredError(const std::string& name = "mean_squared_error");
};

class TANDEM_API MeanAbsoluteError : public Metric {
 public:
  explicit MeanAbsoluteError(const std::string& name = "mean_absolute_error");
};

}  // namespace metrics
}  // namespace tandem::keras
