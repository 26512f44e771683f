/// Models: layers put together, trained on data.
///
///   keras::Sequential model({layers::Dense(10, {.activation = "relu", .input_shape = {784}}),
///                            layers::Dense(10)});
///   model.compile({.optimizer = keras::optimizers::Adam(0.01),
///                  .loss = keras::losses::CategoricalCrossentropy({.from_logits = true}),
///                  .metrics = {"accuracy"}});
///   model.fit(x_train, y_train, {.batch_size = 128, .epochs = 2});
///
/// The functional way describes a graph of layers, with several inputs and outputs and shared
/// layers:
///
///   auto x = keras::Input({784});
///   auto y = layers::Dense(10)(layers::Dense(64, {.activation = "relu"})(x));
///   keras::Model model({x}, {y});
///
/// And any LayerBody is a model: `keras::make_model<MyBody>()`. A Model is a Layer, so models nest.
#pragma once

#include "tandem/data.h"
#include "tandem/keras/layer.h"
#include "tandem/keras/training.h"

namespace tandem::distribute {
class DistributedDataset;
class PerReplica;
}  // namespace tandem::distribute

namespace tandem::keras {

class Trainer;

/// A call of a layer within a model: where its inputs come from, and what it gives.
struct LayerCall {
  /// Output `output` of the model's call number `call`.
  struct Source {
    size_t call = 0;
    size_t output = 0;
    bool operator==(const Source&) const = default;
  };

  Layer layer;
  std::vector<Source> inputs{};  ///< None for an input of the model.
  TensorSpecs outputs{};
  std::optional<bool> training{};  ///< What the call is told whenever the model runs,
  bool has_mask = false;           ///< whether the last input is its mask,
  CallArguments arguments{};       ///< and what it is told by name: see DescribedContext.
};

class TANDEM_API Model : public Layer {
 public:
  /// A model from inputs to outputs, through the layers called between them. Throws InvalidArgument
  /// when an output does not depend on the inputs alone.
  Model(const KerasTensors& inputs, const KerasTensors& outputs, const std::string& name = {});

  /// A layer of one's own as a model.
  explicit Model(std::shared_ptr<LayerBody> body);

  /// The layer with this name, or at this place. Throws NotFound listing the names.
  Layer get_layer(const std::string& name) const;
  Layer get_layer(size_t index) const;

  /// How its layers are connected: its inputs, then its calls of layers, each after those whose
  /// outputs it takes. A layer that is used twice has two calls. Of a model of one's own, and of a
  /// Sequential that has not been built, only the layers are known: their calls have no inputs.
  std::vector<LayerCall> calls() const;

  /// The layers, the shapes of their outputs and the numbers of their parameters, as Keras prints
  /// them. Throws FailedPrecondition before the weights are made.
  std::string summary() const;

  // ---- Training ----

  /// What to make small and how. May be called again; the optimizer's state then starts anew.
  /// Checkpoints of compiled Keras models have the optimizer within the model: it is restored too.
  /// Throws InvalidArgument for names that do not exist, listing those that do.
  void compile(const CompileOptions& options) const;

  /// Trains on arrays, one row per sample, and returns the logs of each epoch. Throws
  /// FailedPrecondition before compile(), InvalidArgument for arrays and options that do not fit,
  /// all before any weight changes. A loss that is no number is InvalidArgument too, unless a
  /// callback is TerminateOnNaN: the weights are then those before the step that it came in, and
  /// fit notices within a second or at the end of the epoch.
  History fit(const Tensor& x, const Tensor& y, const FitOptions& options = {}) const;
  History fit(const Tensors& x, const Tensors& y, const FitOptions& options = {}) const;

  /// The same on batches: an element is the inputs, then the truths, and perhaps a sample weight.
  /// The way through the data set that begins in an epoch is the one of this number. A label that
  /// is no class, which arrays are searched for beforehand, is found in its batch here: the weights
  /// are then those before its step. Where nothing says when the data end and steps_per_epoch is
  /// not given, a warning is logged after the first minute of the first epoch.
  History fit(const data::Dataset& batches, const FitOptions& options = {}) const;

  /// The same on batches that the model's strategy has dealt to its replicas, as those of data that
  /// each process has of its own. Throws InvalidArgument for another strategy's.
  History fit(const distribute::DistributedDataset& batches, const FitOptions& options = {}) const;

  /// The loss and the metrics over all samples, each counted once.
  Logs evaluate(const Tensor& x, const Tensor& y, const EvaluateOptions& options = {}) const;
  Logs evaluate(const Tensors& x, const Tensors& y, const EvaluateOptions& options = {}) const;
  Logs evaluate(const data::Dataset& batches, const EvaluateOptions& options = {}) const;
  Logs evaluate(const distribute::DistributedDataset& batches,
                const EvaluateOptions& options = {}) const;

  /// The outputs for all rows, in order. Needs no compile(). Of a data set's elements the first
  /// tensors are the inputs, and what follows is not looked at. Calls from several threads run side
  /// by side. Throws InvalidArgument where a model of several outputs is to return one.
  Tensor predict(const Tensor& x, const PredictOptions& options = {}) const;
  Tensors predict(const Tensors& x, const PredictOptions& options = {}) const;
  Tensor predict(const data::Dataset& batches, const PredictOptions& options = {}) const;
  Tensors predict_all(const data::Dataset& batches, const PredictOptions& options = {}) const;

  /// One step; returns its loss and metrics. Throws as fit does, and InvalidArgument for a loss
  /// that is no number; no weight has changed then.
  Logs train_on_batch(const Tensors& x, const Tensors& y, const Tensor& sample_weight = {}) const;

 protected:
  struct State;
  Trainer& trainer(const char* who) const;
  std::shared_ptr<State> state_;

 private:
  Tensor only_output(const Tensors& outputs, const char* instead) const;
  Tensors predict_batch(std::vector<distribute::PerReplica> batch) const;
  std::shared_ptr<const FlatFunction> predict_step() const;
};

/// Layers one after another. Where the first has an input shape the weights are made at once.
class TANDEM_API Sequential : public Model {
 public:
  explicit Sequential(const std::vector<Layer>& layers = {}, const std::string& name = {});

  void add(const Layer& layer) const;
};

template <class Body, class... Args>
Model make_model(Args&&... args) {
  return Model(std::make_shared<Body>(std::forward<Args>(args)...));
}

}  // namespace tandem::keras
