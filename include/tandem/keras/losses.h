/// Losses: how far predictions are from the truth, as one number that training makes small.
///
///   keras::losses::CategoricalCrossentropy loss({.from_logits = true});
///   Tensor mean = loss(y_true, y_pred);
///
/// A Loss is a cheap handle; any thread may use it. Inside `strategy.run` a mean is over the
/// *global* batch: each replica gets its share, and the sum over replicas is the loss that one
/// device would have, however unevenly the batch was split.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>

#include "tandem/tensor.h"

namespace tandem::keras {

/// How the losses of examples become one.
enum class Reduction {
  sum_over_batch_size,  ///< Their mean: sample weights scale losses, and do not count as examples.
  sum,
  none,                     ///< They stay as they are.
  mean_with_sample_weight,  ///< Their sum divided by the sum of the sample weights.
};

/// A loss before it is divided: a scalar each, of the predictions' dtype. Both are this replica's
/// share; summed over the replicas, sum / weight is the loss.
struct LossTerm {
  Tensor sum;
  Tensor weight;
};

/// What the truth is, where that matters beyond the function of the losses.
struct LossLabels {
  bool are_classes = false;  ///< Numbers of the predictions' last axis: fit checks arrays of them.
  std::optional<int64_t> ignored{};  ///< Examples of this class do not count.
};

class TANDEM_API Loss {
 public:
  /// The losses of the examples [batch, ..] from the truth and the predictions [batch, ..], or the
  /// loss of them all, a scalar: see operator().
  using PerExample = std::function<Tensor(const Tensor& y_true, const Tensor& y_pred)>;

  /// `name` is Keras's, and so are the defaults: "categorical_crossentropy",
  /// "sparse_categorical_crossentropy", "binary_crossentropy", "mean_squared_error" or "mse",
  /// "mean_absolute_error" or "mae", "huber". Throws InvalidArgument for another, listing these.
  Loss(const std::string& name);  // NOLINT(google-explicit-constructor)
  Loss(const char* name);         // NOLINT(google-explicit-constructor)

  /// One's own. The function gets the truth in the dtype of the predictions, which is float32 for
  /// those of half the size, as in Keras; truths that are classes it gets as they are.
  Loss(std::string name, PerExample per_example,
       Reduction reduction = Reduction::sum_over_batch_size, const LossLabels& labels = {});

  /// The same with the name "loss".
  template <class F>
  requires(!std::derived_from<std::remove_cvref_t<F>, Loss> &&
           std::is_invocable_r_v<Tensor, const F&, const Tensor&, const Tensor&>)
      Loss(F per_example)  // NOLINT(google-explicit-constructor)
      : Loss("loss", PerExample(std::move(per_example))) {}

  const std::string& name() const;
  Reduction reduction() const;
  const LossLabels& labels() const;

  /// What the function returns, neither weighted nor reduced. Throws InvalidArgument, naming the
  /// loss, both shapes and what is accepted, when they do not fit each other.
  Tensor per_example(const Tensor& y_true, const Tensor& y_pred) const;

  /// The losses reduced. Differentiable in `y_pred`. `sample_weight` and `mask` (of any dtype; 0
  /// and false leave an example out of sum and mean) may be undefined; else they have the leading
  /// axes of the losses, any of size 1. A mean of which the mask leaves nothing is 0. The mean with
  /// a mask, or by sample weights, meets the other replicas in one all-reduce of a number; the
  /// plain mean in none. Throws InvalidArgument for shapes that do not fit.
  ///
  /// A function that returns a scalar has reduced the losses itself: to their mean, or, with
  /// Reduction::sum, to their sum. Replicas' means then count by their rows, sums add up. Sample
  /// weights scale the scalar as Keras has it: by their mean, or, with Reduction::sum, by their
  /// sum.
  Tensor operator()(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight = {},
                    const Tensor& mask = {}) const;

  /// The sum of the weighted losses of this replica's examples, and what the sum over replicas is
  /// to be divided by: the number of losses, those that the mask leaves, their sample weights, or,
  /// for Reduction::sum, this replica's share of 1. Throws as above, and for Reduction::none.
  LossTerm terms(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight = {},
                 const Tensor& mask = {}) const;

 private:
  struct Body;
  std::shared_ptr<const Body> body_;
};

/// A weight for each label, by its class; 1 for classes that `class_weight` does not name. `y_true`
/// holds classes, [batch] or [batch, 1], or one-hot rows [batch, classes]; the weights are
/// float32[batch]. Throws InvalidArgument for a class that is negative or above 2^24.
TANDEM_API Tensor sample_weights_of(const std::map<int64_t, double>& class_weight,
                                    const Tensor& y_true);

/// Keras's losses, with its defaults and arithmetic. Predictions are float32 or float64; float16
/// and bfloat16 are computed in float32. The truth may have any dtype. Where both have one shape,
/// the truth [batch] also fits predictions [batch, 1] and the other way round, and with [batch] for
/// both each number is an example.
namespace losses {

using keras::Loss;

struct CategoricalCrossentropyOptions {
  bool from_logits = false;    ///< Predictions are scores, not probabilities.
  double label_smoothing = 0;  ///< This part of each truth is spread over all classes: [0, 1].
  Reduction reduction = Reduction::sum_over_batch_size;
  std::string name = "categorical_crossentropy";
};

/// The cross-entropy of distributions [.., classes]; both have one shape.
class TANDEM_API CategoricalCrossentropy : public Loss {
 public:
  explicit CategoricalCrossentropy(const CategoricalCrossentropyOptions& options = {});
};

struct SparseCategoricalCrossentropyOptions {
  bool from_logits = false;
  std::optional<int64_t> ignore_class{};  ///< Labels of this class do not count, nor in the mean.
  Reduction reduction = Reduction::sum_over_batch_size;
  std::string name = "sparse_categorical_crossentropy";
};

/// The cross-entropy of classes [..] or [.., 1] and distributions [.., classes]. A label that is no
/// class is InvalidArgument naming it and its row, as sparse_softmax_cross_entropy_with_logits
/// throws it.
class TANDEM_API SparseCategoricalCrossentropy : public Loss {
 public:
  explicit SparseCategoricalCrossentropy(const SparseCategoricalCrossentropyOptions& options = {});
};

struct BinaryCrossentropyOptions {
  bool from_logits = false;
  double label_smoothing = 0;  ///< Truths move this far towards 0.5: [0, 1].
  Reduction reduction = Reduction::sum_over_batch_size;
  std::string name = "binary_crossentropy";
};

/// The cross-entropy of probabilities that do not exclude each other, the mean over the last axis.
class TANDEM_API BinaryCrossentropy : public Loss {
 public:
  explicit BinaryCrossentropy(const BinaryCrossentropyOptions& options = {});
};

struct MeanSquaredErrorOptions {
  Reduction reduction = Reduction::sum_over_batch_size;
  std::string name = "mean_squared_error";
};

/// The mean over the last axis of (y_true - y_pred)^2.
class TANDEM_API MeanSquaredError : public Loss {
 public:
  explicit MeanSquaredError(const MeanSquaredErrorOptions& options = {});
};

struct MeanAbsoluteErrorOptions {
  Reduction reduction = Reduction::sum_over_batch_size;
  std::string name = "mean_absolute_error";
};

/// The mean over the last axis of |y_true - y_pred|.
class TANDEM_API MeanAbsoluteError : public Loss {
 public:
  explicit MeanAbsoluteError(const MeanAbsoluteErrorOptions& options = {});
};

struct HuberOptions {
  double delta = 1;  ///< The error from which on the parabola is a line; positive.
  Reduction reduction = Reduction::sum_over_batch_size;
  std::string name = "huber_loss";
};

/// Half the squared error up to `delta`, beyond it a line; the mean over the last axis.
class TANDEM_API Huber : public Loss {
 public:
  explicit Huber(const HuberOptions& options = {});
};

}  // namespace losses
}  // namespace tandem::keras
