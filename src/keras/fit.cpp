#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "keras/bad_input.h"
#include "keras/loss_watch.h"
#include "keras/model_state.h"
#include "keras/progress.h"
#include "keras/step_summary.h"
#include "keras/training.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem::keras {
namespace {

using data::Dataset;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Show shown(Verbose verbose, const std::ostream* output) {
  if (verbose == Verbose::silent) return Show::nothing;
  if (verbose == Verbose::bar) return Show::bar;
  if (verbose == Verbose::line) return Show::line;
  return output == nullptr && isatty(STDOUT_FILENO) != 0 ? Show::bar : Show::line;
}

/// The rows that all of them have.
int64_t common_rows(const char* who, const Tensors& x, const Tensors& y, const Tensor& weight) {
  std::optional<int64_t> rows;
  const auto check = [&](const char* what, size_t index, const Tensor& tensor) {
    if (!tensor.defined() || tensor.rank() == 0) {
      throw InvalidArgument(
          fmt::format("{}: {} {} has no rows; a tensor with a leading axis of samples is needed",
                      who, what, index));
    }
    if (rows && *rows != tensor.shape()[0]) {
      throw InvalidArgument(fmt::format("{}: {} {} has {} rows, x has {}", who, what, index,
                                        tensor.shape()[0], *rows));
    }
    rows = tensor.shape()[0];
  };
  for (size_t i = 0; i < x.size(); ++i) check("x", i, x[i]);
  for (size_t i = 0; i < y.size(); ++i) check("y", i, y[i]);
  if (weight.defined()) check("sample_weight", 0, weight);
  if (!rows || *rows == 0) throw InvalidArgument(fmt::format("{}: there are no samples", who));
  return *rows;
}

void check_batch_size(const char* who, int64_t batch_size, int64_t rows) {
  if (batch_size >= 1 && batch_size <= rows) return;
  throw InvalidArgument(
      fmt::format("{}: batch_size is {}, from 1 to the {} samples there are is accepted", who,
                  batch_size, rows));
}

Dataset slices(const Tensors& x, const Tensors& y, const Tensor& weight) {
  Tensors all = x;
  all.insert(all.end(), y.begin(), y.end());
  if (weight.defined()) all.push_back(weight);
  return Dataset::from_tensor_slices(all);
}

Tensors rows_of(const Tensors& tensors, int64_t begin, int64_t end) {
  Tensors part;
  for (const Tensor& tensor : tensors) part.push_back(tensor.rows(begin, end));
  return part;
}

/// One training, as callbacks see it.
class Run final : public TrainingRun {
 public:
  Run(const Model& model, Training& training, const FitOptions& options)
      : model_(model),
        training_(training),
        options_(options),
        watch_(training),
        progress_(options.output == nullptr ? std::cout : *options.output,
                  shown(options.verbose, options.output)),
        summary_(training.strategy()) {}

  const Model& model() const override { return model_; }
  int epochs() const override { return options_.epochs; }
  std::optional<int64_t> steps() const override { return steps_; }
  Logs logs() override { return training_.logs(); }
  double learning_rate() const override {
    return training_.options().optimizer.current_learning_rate().item<double>();
  }
  void set_learning_rate(double rate) override {
    training_.options().optimizer.learning_rate().assign(Tensor(rate));
  }
  void stop() override { stopped_ = true; }

  History train(const Dataset& batches, const std::function<Logs()>& validate) {
    steps_ = options_.steps_per_epoch;
    if (!steps_ && batches.cardinality() >= 0) steps_ = batches.cardinality();
    History history;
    Logs logs;
    tell([&](Callback& callback) { callback.on_train_begin(*this); });
    for (int epoch = options_.initial_epoch; epoch < options_.epochs && !stopped_; ++epoch) {
      logs = one_epoch(batches, epoch, validate);
      history.epoch.push_back(epoch);
      for (const auto& [name, value] : logs) history.history[name].push_back(value);
    }
    tell([&](Callback& callback) { callback.on_train_end(*this, logs); });
    progress_.end_of_training(summary_.str());
    history.samples_seen = summary_.samples();
    return history;
  }

 private:
  template <class Tell>
  void tell(const Tell& tell) {
    for (const AnyCallback& callback : options_.callbacks) tell(*callback.operator->());
  }

  Logs one_epoch(const Dataset& batches, int epoch, const std::function<Logs()>& validate) {
    progress_.begin_epoch(epoch, options_.epochs);
    tell([&](Callback& callback) { callback.on_epoch_begin(*this, epoch); });
    training_.reset();
    watch_.begin_epoch(epoch);
    progress_.begin(steps_);
    int64_t samples = 0;
    const int64_t done = all_steps(batches.iterator(epoch), samples);
    if (done == 0) throw InvalidArgument("fit: the data set is empty");
    Logs logs = watched_logs();
    const bool validates = validate && (epoch + 1) % options_.validation_freq == 0;
    if (validates) {
      for (const auto& [name, value] : validate()) logs["val_" + name] = value;
    }
    tell([&](Callback& callback) { callback.on_epoch_end(*this, epoch, logs); });
    progress_.end(done, samples, logs);
    return logs;
  }

  int64_t all_steps(data::Iterator batches, int64_t& samples) {
    int64_t done = 0;
    const int64_t every = training_.options().steps_per_execution;
    while (!stopped_ && (!options_.steps_per_epoch || done < *options_.steps_per_epoch)) {
      const auto start = Clock::now();
      const std::optional<Tensors> batch = batches.next();
      if (!batch) break;
      summary_.add_input(seconds_since(start));
      if (done % every == 0) {
        tell([&](Callback& callback) { callback.on_batch_begin(*this, done); });
      }
      step(*batch);
      samples += (*batch)[0].shape()[0];
      ++done;
      if (done % every == 0) {
        tell([&](Callback& callback) { callback.on_batch_end(*this, done - 1); });
      }
      progress_.step(done, [&] { return training_.logs(); });
      if (watch_.is_due()) watched_logs();
    }
    return done;
  }

  /// Throws when the loss is no number; where a TerminateOnNaN is, it stops.
  Logs watched_logs() {
    Logs logs = training_.logs();
    if (LossWatch::is_number(logs)) return logs;
    const auto ends = [](const AnyCallback& callback) {
      return dynamic_cast<callbacks::TerminateOnNaN*>(callback.operator->()) != nullptr;
    };
    if (std::ranges::none_of(options_.callbacks, ends)) throw watch_.error(logs);
    stopped_ = true;
    return logs;
  }

  void step(const Tensors& batch) {
    summary_.run(batch[0].shape()[0], [&] { training_.train(batch); });
    if (options_.verify_every > 0 && summary_.steps() % options_.verify_every == 0) {
      training_.strategy().verify(model_.weights());
    }
  }

  const Model& model_;
  Training& training_;
  const FitOptions& options_;
  LossWatch watch_;
  Progress progress_;
  std::optional<int64_t> steps_;
  bool stopped_ = false;
  StepSummary summary_;
};

Logs evaluated(Training& training, const Dataset& batches, std::optional<int64_t> most,
               Progress* progress) {
  training.reset();
  if (progress != nullptr) {
    progress->begin(batches.cardinality() >= 0 ? std::optional(batches.cardinality()) : most);
  }
  int64_t done = 0;
  int64_t samples = 0;
  data::Iterator iterator = batches.iterator(0);
  while (!most || done < *most) {
    const std::optional<Tensors> batch = iterator.next();
    if (!batch) break;
    training.evaluate(*batch);
    samples += (*batch)[0].shape()[0];
    ++done;
    if (progress != nullptr) progress->step(done, [&] { return training.logs(); });
  }
  if (done == 0) throw InvalidArgument("evaluate: the data set is empty");
  Logs logs = training.logs();
  if (progress != nullptr) progress->end(done, samples, logs);
  return logs;
}

void check(const FitOptions& options) {
  const auto refuse = [](const char* name, auto value, const char* accepted) {
    throw InvalidArgument(fmt::format("fit: {} is {}, {} is accepted", name, value, accepted));
  };
  if (options.epochs < 0) refuse("epochs", options.epochs, "0 or more");
  if (options.initial_epoch < 0) refuse("initial_epoch", options.initial_epoch, "0 or more");
  if (options.validation_freq < 1) refuse("validation_freq", options.validation_freq, "1 or more");
  if (!(options.validation_split >= 0 && options.validation_split < 1)) {
    refuse("validation_split", options.validation_split, "from 0 to below 1");
  }
  if (options.verify_every < 0) refuse("verify_every", options.verify_every, "0 or more");
  if (options.steps_per_epoch && *options.steps_per_epoch < 1) {
    refuse("steps_per_epoch", *options.steps_per_epoch, "1 or more");
  }
}

}  // namespace

Training& Model::training(const char* who) const {
  if (state_->training) return *state_->training;
  throw FailedPrecondition(fmt::format(
      "{}: model '{}' is not compiled; call compile({{.optimizer = .., .loss = ..}}) first", who,
      name()));
}

void Model::compile(const CompileOptions& options) const {
  const auto scope = state_->strategy.scope();
  state_->training = std::make_unique<Training>(*this, options, state_->inputs, state_->strategy);
}

History Model::fit(const Tensor& x, const Tensor& y, const FitOptions& options) const {
  return fit(Tensors{x}, Tensors{y}, options);
}

History Model::fit(const Tensors& x, const Tensors& y, const FitOptions& options) const {
  const Training& training = this->training("fit");
  check(options);
  const int64_t rows = common_rows("fit", x, y, options.sample_weight);
  check_arrays("fit", *this, training, x, y, options.class_weight);
  Tensor weight = options.sample_weight;
  if (!options.class_weight.empty()) {
    const Tensor by_class = sample_weights_of(options.class_weight, y[0]);
    weight = weight.defined() ? cast(weight, DType::float32) * by_class : by_class;
  }
  const auto held_back =
      static_cast<int64_t>(static_cast<double>(rows) * (1 - options.validation_split));
  const int64_t used = options.validation_split > 0 ? held_back : rows;
  check_batch_size("fit", options.batch_size, used);
  FitOptions inner = options;
  if (used < rows) {
    inner.validation_data = ValidationData{rows_of(x, used, rows), rows_of(y, used, rows),
                                           weight.defined() ? weight.rows(used, rows) : Tensor()};
  }
  Dataset samples = slices(rows_of(x, 0, used), rows_of(y, 0, used),
                           weight.defined() ? weight.rows(0, used) : Tensor());
  if (options.shuffle) samples = samples.shuffle(used);
  inner.class_weight.clear();
  return fit(samples.batch(options.batch_size).prefetch(2), inner);
}

History Model::fit(const Dataset& batches, const FitOptions& options) const {
  Training& training = this->training("fit");
  check(options);
  if (!options.class_weight.empty()) {
    throw InvalidArgument("fit: class_weight goes with arrays; put weights into the data set");
  }
  if (batches.cardinality() == 0) throw InvalidArgument("fit: the data set is empty");
  std::function<Logs()> validate;
  if (options.validation_data) {
    const ValidationData& held = *options.validation_data;
    const int64_t rows = common_rows("fit: validation_data", held.x, held.y, held.sample_weight);
    check_arrays("fit: validation_data", *this, training, held.x, held.y);
    const int64_t batch =
        std::min(options.validation_batch_size.value_or(options.batch_size), rows);
    const Dataset set = slices(held.x, held.y, held.sample_weight).batch(batch);
    validate = [&training, set, most = options.validation_steps] {
      return evaluated(training, set, most, nullptr);
    };
  }
  return Run(*this, training, options).train(batches.within_deadline(), validate);
}

Logs Model::evaluate(const Tensor& x, const Tensor& y, const EvaluateOptions& options) const {
  return evaluate(Tensors{x}, Tensors{y}, options);
}

Logs Model::evaluate(const Tensors& x, const Tensors& y, const EvaluateOptions& options) const {
  const Training& training = this->training("evaluate");
  const int64_t rows = common_rows("evaluate", x, y, options.sample_weight);
  check_arrays("evaluate", *this, training, x, y);
  if (options.batch_size < 1) check_batch_size("evaluate", options.batch_size, rows);
  return evaluate(slices(x, y, options.sample_weight).batch(std::min(options.batch_size, rows)),
                  options);
}

Logs Model::evaluate(const Dataset& batches, const EvaluateOptions& options) const {
  Progress progress(options.output == nullptr ? std::cout : *options.output,
                    shown(options.verbose, options.output));
  return evaluated(training("evaluate"), batches, options.steps, &progress);
}

Tensor Model::predict(const Tensor& x, const PredictOptions& options) const {
  Tensors outputs = predict(Tensors{x}, options);
  if (outputs.size() == 1) return outputs[0];
  throw InvalidArgument(fmt::format("predict: model '{}' has {} outputs, give a list of inputs",
                                    name(), outputs.size()));
}

Tensors Model::predict(const Tensors& x, const PredictOptions& options) const {
  const int64_t rows = common_rows("predict", x, {}, {});
  if (x.size() != state_->inputs) {
    throw InvalidArgument(fmt::format("predict: x has {} tensors, model '{}' has {} input{}",
                                      x.size(), name(), state_->inputs,
                                      state_->inputs == 1 ? "" : "s"));
  }
  if (options.batch_size < 1) check_batch_size("predict", options.batch_size, rows);
  std::call_once(state_->predict_made, [&] {
    state_->predict = std::make_unique<FlatFunction>(
        [model = Layer(*this)](const Tensors& inputs) { return model(inputs); },
        FunctionOptions{.name = "predict_step"});
  });
  std::vector<Tensors> parts;  // By output.
  for (int64_t begin = 0; begin < rows; begin += options.batch_size) {
    if (options.steps && begin >= *options.steps * options.batch_size) break;
    const distribute::Strategy& strategy = state_->strategy;
    const distribute::PerReplicas outputs = strategy.run_flat(
        *state_->predict,
        strategy.split(rows_of(x, begin, std::min(begin + options.batch_size, rows))));
    parts.resize(outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) parts[i].push_back(strategy.gather(outputs[i], 0));
  }
  Tensors joined;
  for (const Tensors& list : parts) joined.push_back(list.size() == 1 ? list[0] : concat(list, 0));
  return joined;
}

Logs Model::train_on_batch(const Tensors& x, const Tensors& y, const Tensor& weight) const {
  Training& training = this->training("train_on_batch");
  common_rows("train_on_batch", x, y, weight);
  check_arrays("train_on_batch", *this, training, x, y);
  Tensors batch = x;
  batch.insert(batch.end(), y.begin(), y.end());
  if (weight.defined()) batch.push_back(weight);
  training.reset();
  training.train(batch);
  Logs logs = training.logs();
  if (LossWatch::is_number(logs)) return logs;
  throw LossWatch(training).error(logs, "train_on_batch", "this batch");
}

}  // namespace tandem::keras
