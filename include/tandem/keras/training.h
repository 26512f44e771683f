/// The options of compile, fit, evaluate and predict, and what fit returns. Names and defaults are
/// Keras's.
#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tandem/data.h"
#include "tandem/keras/callbacks.h"
#include "tandem/keras/losses.h"
#include "tandem/keras/metrics.h"
#include "tandem/keras/optimizers.h"

namespace tandem::keras {

/// One of them, or a list: `.loss = "mse"`, `.loss = {"mse", "mae"}`.
template <class T>
class OneOrMore : public std::vector<T> {
 public:
  OneOrMore() = default;
  template <std::convertible_to<T> One>
  OneOrMore(const One& one)  // NOLINT(google-explicit-constructor)
      : std::vector<T>{T(one)} {}
  OneOrMore(std::initializer_list<T> list) : std::vector<T>(list) {}
};

/// A batch as a step of one's own gets it: on a replica its rows.
struct StepBatch {
  Tensors x{};
  Tensors y{};             ///< What follows the inputs.
  Tensor sample_weight{};  ///< Where losses are given, so that it is known; else part of y.
};

/// A step of one's own, written with ops: it is traced. It returns a scalar for each name of
/// CompileOptions::step_logs. Each is the replica's share, as a Loss gives it within strategy.run;
/// the logs have the mean over the batches, each counted by its rows.
using StepFn = std::function<Tensors(const StepBatch& batch)>;

struct CompileOptions {
  optimizers::Optimizer optimizer = "rmsprop";
  OneOrMore<Loss> loss{};              ///< One for all outputs, or one for each.
  std::vector<double> loss_weights{};  ///< One for each output; 1 without them.
  std::vector<Metric> metrics{};       ///< Metrics of each output, each sample counted once.
  /// Metrics of each output, each sample counted by its weight, where fit or evaluate has weights.
  std::vector<Metric> weighted_metrics{};
  bool run_eagerly = false;     ///< Steps run op by op: slow, for debugging.
  int steps_per_execution = 1;  ///< Callbacks are called once for so many; epochs have as many or
                                ///< a multiple, unless the data end.

  /// A step of one's own in the place of fit's, which calls the model, takes gradients and applies
  /// optimizers itself. `optimizer` is then the one whose rate callbacks see, and `loss` may be
  /// left out. After a loss that is no number weights may have changed. A step that calls the model
  /// holds it as a Layer: a Model would hold itself by it.
  StepFn train_step{};
  StepFn test_step{};  ///< In the place of that of evaluate and of validation.
  /// In the place of a call of the model in predict: the outputs for these inputs.
  std::function<Tensors(const Tensors& inputs)> predict_step{};
  std::vector<std::string> step_logs{"loss"};  ///< What train_step and test_step return.
  /// Metrics that such steps update: they are reset with the others, and part of the logs.
  std::vector<Metric> step_metrics{};
};

/// What is shown: a bar on a terminal and a line per epoch elsewhere; nothing; one or the other.
enum class Verbose { automatic, silent, bar, line };

/// What fit validates on: `.validation_data = {{x, y}}`, with weights of the samples perhaps, or
/// `.validation_data = batches`, elements as for fit.
struct ValidationData {
  // NOLINTBEGIN(google-explicit-constructor): options take them as they are.
  ValidationData(const Tensor& x, const Tensor& y, const Tensor& sample_weight = {})
      : ValidationData(Tensors{x}, Tensors{y}, sample_weight) {}
  ValidationData(Tensors x, Tensors y, Tensor sample_weight = {})
      : x(std::move(x)), y(std::move(y)), sample_weight(std::move(sample_weight)) {}
  ValidationData(const data::Dataset& batches) : batches(batches) {}
  // NOLINTEND(google-explicit-constructor)

  Tensors x{};
  Tensors y{};
  Tensor sample_weight{};
  std::optional<data::Dataset> batches{};  ///< A data set in place of the arrays.
};

/// A batch size that fit finds before the first step: the largest power of two, at most the number
/// of samples, with which the memory of a step stays within 90 % of each device's limit. It is
/// logged.
inline constexpr int64_t automatic = std::numeric_limits<int64_t>::min();

struct FitOptions {
  /// The rows of a batch of arrays, over all replicas, or `automatic`. Unless given it is 32 or,
  /// with steps_per_epoch, what makes so many steps of the arrays.
  std::optional<int64_t> batch_size{};
  int epochs = 1;  ///< The number of the last one, as counted from `initial_epoch`.
  Verbose verbose = Verbose::automatic;
  std::vector<AnyCallback> callbacks{};
  /// This part of the samples of arrays, the last, is not trained on, unless there is
  /// validation_data.
  double validation_split = 0;
  std::optional<ValidationData> validation_data{};
  bool shuffle = true;                       ///< The rows get a new order before each epoch.
  std::map<int64_t, double> class_weight{};  ///< The weight of each class; 1 for those not named.
  Tensor sample_weight{};                    ///< One per sample of arrays.
  int initial_epoch = 0;
  /// An epoch is so many steps and goes on where the last one ended. Where the data end within it a
  /// warning is logged, the epoch is over, and the next one starts from their beginning: a data set
  /// that says how many elements it has also where the epoch ends with them.
  std::optional<int64_t> steps_per_epoch{};
  std::optional<int64_t> validation_steps{};       ///< The first so many, each time.
  std::optional<int64_t> validation_batch_size{};  ///< Rows of such a batch; else batch_size.
  int validation_freq = 1;                         ///< Validates after each so many epochs.
  int64_t verify_every = 0;  ///< Compares the replicas' weights after so many steps; 0: never.
  std::ostream* output = nullptr;  ///< Where progress is shown; null: std::cout.
};

struct EvaluateOptions {
  std::optional<int64_t> batch_size{};  ///< As for fit.
  Verbose verbose = Verbose::automatic;
  Tensor sample_weight{};          ///< One per sample of arrays.
  std::optional<int64_t> steps{};  ///< The first so many.
  std::ostream* output = nullptr;
};

struct PredictOptions {
  std::optional<int64_t> batch_size{};  ///< As for fit.
  Verbose verbose = Verbose::silent;
  std::optional<int64_t> steps{};  ///< The first so many.
};

/// The logs of each epoch. A weighted metric whose name another has is "weighted_<name>", and what
/// is then still the same gets a number, "mae_1". A model with several outputs has "<layer>_loss"
/// and "<layer>_accuracy" for each, after the layers that give them (in a model of one's own
/// "output_1_loss", ..), and "loss", their weighted sum.
struct History {
  std::vector<int> epoch;
  std::map<std::string, std::vector<double>> history;
  int64_t samples_seen = 0;  ///< Samples over all epochs and replicas; each counts once an epoch.
};

}  // namespace tandem::keras
