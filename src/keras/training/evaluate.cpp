#include "keras/training/evaluate.h"

#include <fmt/format.h>

#include "collective/parts.h"
#include "core/interruptible.h"
#include "core/named_error.h"
#include "distribute/range/task_message.h"
#include "distribute/strategy_body.h"
#include "keras/model_state.h"
#include "keras/training/bad_input.h"
#include "keras/training/samples.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem::keras {

using data::Dataset;

void check_dealt(const char* who, const Trainer& trainer,
                 const distribute::DistributedDataset& batches) {
  if (batches.strategy() == trainer.strategy()) return;
  throw InvalidArgument(
      fmt::format("{}: the batches are dealt to the replicas of {}, and the model was made in the "
                  "scope of {}; deal them by the model's strategy",
                  who, batches.strategy().name(), trainer.strategy().name()));
}

Logs evaluate(Trainer& trainer, EpochBatches& batches, int64_t epoch, Progress* progress) {
  trainer.reset();
  if (progress != nullptr) progress->begin(batches.steps());
  int64_t done = 0;
  int64_t samples = 0;
  batches.rewind();
  batches.begin(epoch);
  core::PacedLook looks;
  while (const std::optional<distribute::PerReplicas> batch = batches.next()) {
    looks.look();
    trainer.evaluate(*batch);
    samples += batches.rows();
    ++done;
    if (progress != nullptr) progress->step(done, [&] { return trainer.logs(); });
  }
  if (done == 0) throw InvalidArgument("evaluate: the data set is empty");
  Logs logs = trainer.logs();
  if (progress != nullptr) progress->end(done, samples, logs);
  return logs;
}

namespace {

/// Where other processes have the variables, the one that leads evaluates, and all have its logs.
Logs evaluate_once(Trainer& trainer, EpochBatches& batches, const EvaluateOptions& options) {
  distribute::ServerTraining* servers = trainer.servers();
  // A callback of fit is called by the process that leads alone.
  if (servers != nullptr && servers->is_met()) servers = nullptr;
  if (servers != nullptr) servers->meet();
  Logs logs;
  if (servers != nullptr && !servers->leads()) {
    const std::string told = servers->follow();
    distribute::MessageReader reader(told);
    while (!reader.rest().empty()) {
      const std::string name(reader.read_text());
      logs[name] = reader.read<double>();
    }
    return logs;
  }
  Progress progress(options.output, shown_by(trainer.strategy(), options.verbose));
  try {
    logs = keras::evaluate(trainer, batches, 0, &progress);
  } catch (...) {
    if (servers != nullptr) servers->end({}, core::current_error_text());
    throw;
  }
  if (servers != nullptr) {
    distribute::MessageWriter told;
    for (const auto& [name, value] : logs) told.add_text(name).add(value);
    servers->end(told.take());
  }
  return logs;
}

}  // namespace

Logs Model::evaluate(const Tensor& x, const Tensor& y, const EvaluateOptions& options) const {
  return evaluate(Tensors{x}, Tensors{y}, options);
}

Logs Model::evaluate(const Tensors& x, const Tensors& y, const EvaluateOptions& options) const {
  const Samples samples{x, y, options.sample_weight};
  const Trainer& trainer = this->trainer("evaluate");
  const int64_t rows = samples.rows("evaluate");
  check_arrays("evaluate", *this, trainer, x, y);
  EvaluateOptions inner = options;
  inner.sample_weight = {};
  return evaluate(
      samples.slices().batch(batch_size_of("evaluate", options.batch_size, options.steps, rows)),
      inner);
}

Logs Model::evaluate(const Dataset& batches, const EvaluateOptions& options) const {
  Trainer& trainer = this->trainer("evaluate");
  if (options.sample_weight.defined()) {
    throw InvalidArgument(
        "evaluate: sample_weight goes with arrays; put weights into the data set");
  }
  EpochBatches source({"evaluate", "steps"}, batches, trainer.in_executions(options.steps),
                      trainer.strategy());
  return evaluate_once(trainer, source, options);
}

Logs Model::evaluate(const distribute::DistributedDataset& batches,
                     const EvaluateOptions& options) const {
  Trainer& trainer = this->trainer("evaluate");
  check_dealt("evaluate", trainer, batches);
  EpochBatches source({"evaluate", "steps"}, batches, trainer.in_executions(options.steps));
  return evaluate_once(trainer, source, options);
}

Tensor Model::only_output(const Tensors& outputs, const char* instead) const {
  if (outputs.size() == 1) return outputs[0];
  throw InvalidArgument(
      fmt::format("predict: model '{}' has {} outputs, {}", name(), outputs.size(), instead));
}

Tensor Model::predict(const Tensor& x, const PredictOptions& options) const {
  return only_output(predict(Tensors{x}, options), "give a list of inputs");
}

Tensor Model::predict(const Dataset& batches, const PredictOptions& options) const {
  return only_output(predict_all(batches, options), "call predict_all");
}

Tensors Model::predict(const Tensors& x, const PredictOptions& options) const {
  const Samples samples{x};
  const int64_t rows = samples.rows("predict");
  if (x.size() != state_->inputs) {
    throw InvalidArgument(fmt::format("predict: x has {} tensors, model '{}' has {} input{}",
                                      x.size(), name(), state_->inputs,
                                      state_->inputs == 1 ? "" : "s"));
  }
  return predict_all(
      samples.slices().batch(batch_size_of("predict", options.batch_size, options.steps, rows)),
      options);
}

Tensors Model::predict_all(const Dataset& batches, const PredictOptions& options) const {
  const auto steps =
      state_->trainer ? state_->trainer->in_executions(options.steps) : options.steps;
  EpochBatches source({"predict", "steps"}, batches, steps, state_->strategy);
  std::vector<Tensors> parts;  // The parts of each output.
  source.begin(0);
  core::PacedLook looks;
  while (std::optional<distribute::PerReplicas> batch = source.next()) {
    looks.look();
    const Tensors outputs = predict_batch(std::move(*batch));
    parts.resize(outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) parts[i].push_back(outputs[i]);
  }
  if (parts.empty()) throw InvalidArgument("predict: the data set is empty");
  Tensors joined;
  for (const Tensors& list : parts) joined.push_back(list.size() == 1 ? list[0] : concat(list, 0));
  return joined;
}

/// What predict runs: a call of the model, or the step that compile was given.
std::shared_ptr<const FlatFunction> Model::predict_step() const {
  const std::lock_guard lock(state_->mutex);
  if (state_->predict) return state_->predict;
  std::function<Tensors(const Tensors&)> step;
  if (state_->trainer) step = state_->trainer->options().predict_step;
  if (!step) step = [model = Layer(*this)](const Tensors& inputs) { return model(inputs); };
  state_->predict = std::make_shared<const FlatFunction>(
      [step = std::move(step)](const Tensors& inputs) {
        Tensors outputs = step(inputs);
        for (Tensor& output : outputs) output = collective::gather_parts(output);
        return outputs;
      },
      FunctionOptions{.name = "predict_step"});
  return state_->predict;
}

/// The outputs for an element of a data set.
Tensors Model::predict_batch(distribute::PerReplicas batch) const {
  if (batch.size() < state_->inputs) {
    throw InvalidArgument(
        fmt::format("predict: an element of the data set has {} tensors, model '{}' has {} inputs",
                    batch.size(), name(), state_->inputs));
  }
  batch.resize(state_->inputs);
  const std::shared_ptr<const FlatFunction> step = predict_step();
  const distribute::Strategy& strategy = state_->strategy;
  Tensors outputs;
  for (const auto& output : strategy.run_flat(*step, batch)) {
    outputs.push_back(strategy.gather(output, 0));
  }
  return outputs;
}

}  // namespace tandem::keras
