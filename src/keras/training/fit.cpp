// `fit`: arrays become a data set of batches, and then a loop goes over epochs and steps, tells the
// callbacks, prints the progress and validates. What a step computes is Training's.
#include <fmt/format.h>

#include <algorithm>

#include "core/interruptible.h"
#include "core/named_error.h"
#include "distribute/range/task_message.h"
#include "distribute/strategy_body.h"
#include "keras/model_state.h"
#include "keras/training/bad_input.h"
#include "keras/training/epoch_batches.h"
#include "keras/training/evaluate.h"
#include "keras/training/loss_watch.h"
#include "keras/training/progress.h"
#include "keras/training/samples.h"
#include "keras/training/step_summary.h"
#include "keras/training/worker_agreement.h"
#include "tandem/error.h"
#include "tandem/log.h"
#include "tandem/ops.h"

namespace tandem::keras {
namespace {

using data::Dataset;
using Clock = std::chrono::steady_clock;

/// What a fit returns, for other processes.
std::string text_of(const History& history) {
  distribute::MessageWriter text;
  text.add_list(history.epoch).add(history.samples_seen);
  text.add(static_cast<uint64_t>(history.history.size()));
  for (const auto& [name, values] : history.history) text.add_text(name).add_list(values);
  return text.take();
}

History history_of(const std::string& text) {
  distribute::MessageReader reader(text);
  History history;
  history.epoch = reader.read_list<int>();
  history.samples_seen = reader.read<int64_t>();
  for (auto left = reader.read<uint64_t>(); left > 0; --left) {
    const std::string name(reader.read_text());
    history.history[name] = reader.read_list<double>();
  }
  return history;
}

/// One training, as callbacks see it.
class Run final : public TrainingRun {
 public:
  Run(const Model& model, Trainer& trainer, EpochBatches batches, const FitOptions& options)
      : model_(model),
        trainer_(trainer),
        options_(options),
        batches_(std::move(batches)),
        watch_(trainer),
        progress_(options.output, shown_by(trainer.strategy(), options.verbose)),
        summary_(trainer.strategy()),
        workers_(trainer) {
    if (trainer.servers() != nullptr) staleness_ = trainer.servers()->statistics().totals();
  }

  const Model& model() const override { return model_; }
  int epochs() const override { return options_.epochs; }
  std::optional<int64_t> steps() const override { return batches_.steps(); }
  Logs logs() override { return trainer_.logs(); }
  double learning_rate() const override {
    return trainer_.options().optimizer.current_learning_rate().item<double>();
  }
  void set_learning_rate(double rate) override {
    trainer_.options().optimizer.learning_rate().assign(Tensor(rate));
  }
  void stop() override {
    if (workers_.has_others()) {
      workers_.ask_to_stop();
    } else {
      stopped_ = true;
    }
  }
  void save() override {
    if (workers_.has_others()) {
      workers_.ask_to_save();
    } else {
      saves_ = true;
    }
  }
  bool is_chief() const override { return trainer_.strategy().is_chief(); }

  using Validate = std::function<Logs(int epoch)>;

  /// Other processes hear of what is thrown.
  History train(const Validate& validate) {
    try {
      History history = all_epochs(validate);
      if (trainer_.servers() != nullptr) trainer_.servers()->end(text_of(history));
      return history;
    } catch (...) {
      workers_.leave_by_error();
      finish_quietly();
      if (trainer_.servers() != nullptr) trainer_.servers()->end({}, core::current_error_text());
      throw;
    }
  }

 private:
  /// Steps in the background end before fit does; the error is that of the caller's thread.
  void finish_quietly() const {
    try {
      trainer_.finish();
    } catch (const Error&) {
    }
  }

  History all_epochs(const Validate& validate) {
    History history;
    Logs logs;
    tell([&](Callback& callback) { callback.on_train_begin(*this); });
    for (int epoch = options_.initial_epoch; epoch < options_.epochs && !stopped_; ++epoch) {
      logs = one_epoch(epoch, validate);
      history.epoch.push_back(epoch);
      for (const auto& [name, value] : logs) history.history[name].push_back(value);
    }
    tell([&](Callback& callback) { callback.on_train_end(*this, logs); });
    progress_.end_of_training(summary_.str() + workers_.lags() + trainer_.staleness());
    workers_.end_if_terminated(summary_.steps());
    workers_.note_progress("what follows fit", summary_.steps());
    history.samples_seen = summary_.samples();
    return history;
  }

  template <class Tell>
  void tell(const Tell& tell) {
    for (const AnyCallback& callback : options_.callbacks) tell(*callback.operator->());
  }

  Logs one_epoch(int epoch, const Validate& validate) {
    progress_.begin_epoch(epoch, options_.epochs);
    tell([&](Callback& callback) { callback.on_epoch_begin(*this, epoch); });
    trainer_.reset();
    watch_.begin_epoch(epoch);
    progress_.begin(steps());
    batches_.begin(epoch);
    int64_t samples = 0;
    const int64_t done = all_steps(epoch, samples);
    trainer_.finish();
    if (summary_.steps() == 0) throw InvalidArgument("fit: the data set is empty");
    Logs logs = watched_logs();
    note_staleness(logs);
    const bool validates = validate && (epoch + 1) % options_.validation_freq == 0;
    if (validates) {
      workers_.note_progress("validation", summary_.steps());
      for (const auto& [name, value] : validate(epoch)) logs["val_" + name] = value;
    }
    workers_.note_progress("callbacks at the end of an epoch", summary_.steps());
    tell([&](Callback& callback) { callback.on_epoch_end(*this, epoch, logs); });
    progress_.end(done, samples, logs);
    stopped_ |= workers_.meet();
    save_if_asked();
    return logs;
  }

  /// The mean of the epoch's updates, where parameter servers make them.
  void note_staleness(Logs& logs) {
    if (trainer_.servers() == nullptr) return;
    const auto now = trainer_.servers()->statistics().totals();
    const auto before = std::exchange(staleness_, now);
    if (now.updates <= before.updates) return;
    logs["staleness"] = static_cast<double>(now.staleness - before.staleness) /
                        static_cast<double>(now.updates - before.updates);
  }

  int64_t all_steps(int epoch, int64_t& samples) {
    int64_t done = 0;
    const int64_t every = trainer_.options().steps_per_execution;
    const auto end_execution = [&](int64_t last) {
      tell([&](Callback& callback) { callback.on_batch_end(*this, last); });
    };
    while (!stopped_) {
      looks_.look();
      const auto start = Clock::now();
      workers_.note_progress("data.next", summary_.steps());
      const std::optional<distribute::PerReplicas> batch = batches_.next();
      if (!batch) break;
      input_ = {};
      add_input_since(start);
      if (done % every == 0) {
        tell([&](Callback& callback) { callback.on_batch_begin(*this, done); });
      }
      {
        const interruption::WholeStep whole;
        step(*batch, {epoch, done});
      }
      samples += batches_.rows();
      ++done;
      if (done % every == 0) end_execution(done - 1);
      save_if_asked();
      progress_.step(done, [&] { return trainer_.logs(); });
      if (watch_.is_due()) watched_logs();
    }
    if (done % every != 0 && !stopped_) end_execution(done / every * every + every - 1);
    return done;
  }

  /// Throws when the loss is no number; where a TerminateOnNaN is, it stops.
  Logs watched_logs() {
    Logs logs = trainer_.logs();
    if (LossWatch::is_number(logs)) return logs;
    const auto ends = [](const AnyCallback& callback) {
      return dynamic_cast<callbacks::TerminateOnNaN*>(callback.operator->()) != nullptr;
    };
    if (std::ranges::none_of(options_.callbacks, ends)) throw watch_.error(logs);
    stop();
    return logs;
  }

  /// Tells the callbacks to save where some process has asked for it: all are at the same step.
  void save_if_asked() {
    if (!saves_ && !workers_.saves()) return;
    saves_ = false;
    workers_.has_saved();
    workers_.note_progress("a save that was asked for", summary_.steps());
    tell([&](Callback& callback) { callback.on_save(*this, summary_.steps()); });
  }

  void add_input_since(Clock::time_point start) {
    const auto time = Clock::now() - start;
    input_ += time;
    summary_.add_input(std::chrono::duration<double>(time).count());
  }

  /// Tells the other processes of the step that begins. The next step's data are drawn here where
  /// they are this process's own.
  void tell_others() {
    if (!workers_.has_others()) return;
    const auto start = Clock::now();
    const int64_t next_rows = batches_.next_rows();
    add_input_since(start);
    workers_.note_progress("the run", summary_.steps());
    workers_.say(next_rows, input_);
  }

  void step(const distribute::PerReplicas& batch, const distribute::BatchNumber& number) {
    tell_others();
    summary_.run(batches_.rows(), [&] { trainer_.train(batch, number); });
    stopped_ |= workers_.hear();
    batches_.hear_rows(workers_.rows_of_all());
    if (options_.verify_every > 0 && summary_.steps() % options_.verify_every == 0) {
      trainer_.strategy().verify(model_.weights());
    }
  }

  const Model& model_;
  Trainer& trainer_;
  const FitOptions& options_;
  EpochBatches batches_;
  LossWatch watch_;
  Progress progress_;
  core::PacedLook looks_;
  bool stopped_ = false;
  bool saves_ = false;
  std::chrono::nanoseconds input_{0};  // How long the data of the step were waited for.
  StepSummary summary_;
  WorkerAgreement workers_;
  distribute::StalenessStatistics::Totals staleness_;  // All updates so far.
};

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

/// The batches that fit validates on.
EpochBatches validation_batches(const Model& model, const Trainer& trainer,
                                const FitOptions& options) {
  const EpochBatches::Words words{"fit: validation_data", "validation_steps"};
  const std::optional<int64_t> steps = trainer.in_executions(options.validation_steps);
  const ValidationData& held = *options.validation_data;
  const distribute::Strategy& strategy = trainer.strategy();
  if (held.batches) return {words, *held.batches, steps, strategy};
  const Samples samples{held.x, held.y, held.sample_weight};
  const int64_t rows = samples.rows(words.who);
  check_arrays(words.who, model, trainer, held.x, held.y);
  const auto given =
      options.validation_batch_size ? options.validation_batch_size : options.batch_size;
  const int64_t size = batch_size_of(words.who, given, options.validation_steps, rows);
  return {words, samples.slices().batch(size), steps, strategy};
}

/// Some rows, as a step takes them.
Tensors some_rows(const Samples& samples, int64_t count) {
  const Samples part = samples.part(0, std::min(samples.rows("fit"), count));
  Tensors batch = part.x;
  batch.insert(batch.end(), part.y.begin(), part.y.end());
  if (part.weight.defined()) batch.push_back(part.weight);
  return batch;
}

/// Tells in the log what was chosen.
int64_t automatic_batch_size(Trainer& trainer, const Samples& samples, const FitOptions& options) {
  if (options.steps_per_epoch) {
    throw InvalidArgument(
        "fit: batch_size is automatic and steps_per_epoch is given; one of them decides");
  }
  // Two rows for each replica, so that a number of rows is nothing that the shapes have anyway.
  const int64_t rows = samples.rows("fit");
  const int64_t some = int64_t{2} * trainer.strategy().num_replicas_in_sync();
  const int64_t size = trainer.largest_batch(some_rows(samples, some), rows);
  logging::write(logging::Level::info,
                 fmt::format("fit: batch_size is automatic: {} of {} rows", size, rows));
  return size;
}

void check_no_arrays(const FitOptions& options) {
  const auto refuse = [](const char* option, const char* instead) {
    throw InvalidArgument(fmt::format("fit: {} goes with arrays; {}", option, instead));
  };
  if (!options.class_weight.empty()) refuse("class_weight", "put weights into the data set");
  if (options.sample_weight.defined()) refuse("sample_weight", "put weights into the data set");
  if (options.validation_split > 0) refuse("validation_split", "give validation_data");
  if (options.batch_size == automatic) refuse("batch_size automatic", "batch the data set");
}

}  // namespace

Trainer& Model::trainer(const char* who) const {
  if (state_->trainer) return *state_->trainer;
  throw FailedPrecondition(fmt::format(
      "{}: model '{}' is not compiled; call compile({{.optimizer = .., .loss = ..}}) first", who,
      name()));
}

void Model::compile(const CompileOptions& options) const {
  const auto scope = state_->strategy.scope();
  state_->trainer = std::make_unique<Trainer>(*this, options, state_->inputs, state_->strategy);
  {
    const std::lock_guard lock(state_->mutex);
    state_->predict.reset();  // Its step may be another now.
  }
  track("optimizer", options.optimizer, {.restore_only = true, .overwrite = true});
}

History Model::fit(const Tensor& x, const Tensor& y, const FitOptions& options) const {
  return fit(Tensors{x}, Tensors{y}, options);
}

History Model::fit(const Tensors& x, const Tensors& y, const FitOptions& options) const {
  Trainer& trainer = this->trainer("fit");
  check(options);
  // The order of the samples is drawn below, the same by all processes.
  const auto* workers = trainer.strategy().body().workers();
  if (workers != nullptr) workers->take_random_state("the beginning of fit");
  if (trainer.servers() != nullptr) trainer.servers()->meet();
  const Samples all{x, y, options.sample_weight};
  const int64_t rows = all.rows("fit");
  check_arrays("fit", *this, trainer, x, y, options.class_weight);
  FitOptions inner = options;
  int64_t used = rows;
  if (options.validation_split > 0 && !options.validation_data) {
    used = static_cast<int64_t>(static_cast<double>(rows) * (1 - options.validation_split));
    const Samples held = all.part(used, rows);
    inner.validation_data = ValidationData(held.x, held.y, held.weight);
  }
  Samples samples = all.part(0, used);
  if (!options.class_weight.empty()) {
    const Tensor by_class = sample_weights_of(options.class_weight, samples.y[0]);
    samples.weight =
        samples.weight.defined() ? cast(samples.weight, DType::float32) * by_class : by_class;
  }
  if (options.batch_size == automatic) {
    inner.batch_size = automatic_batch_size(trainer, samples, options);
  }
  const int64_t batch_size =
      batch_size_of("fit", inner.batch_size, options.steps_per_epoch, samples.rows("fit"));
  Dataset each = samples.slices();
  if (options.shuffle) each = each.shuffle(used);
  if (workers != nullptr) workers->count_common_draws();
  inner.class_weight.clear();
  inner.sample_weight = {};
  inner.validation_split = 0;
  return fit(each.batch(batch_size).prefetch(2), inner);
}

namespace {

constexpr EpochBatches::Words kWords{"fit", "steps_per_epoch"};

/// On a process that follows another one.
History followed(Trainer& trainer, EpochBatches batches, const FitOptions& options) {
  const int64_t first = options.initial_epoch;
  const auto batch_at = [&](const distribute::BatchNumber& number) {
    return batches.find(first, number.epoch, number.batch);
  };
  const std::string told = trainer.follow({.epoch = first, .batch = 0}, batch_at);
  return told.empty() ? History() : history_of(told);
}

History trained(const Model& model, Trainer& trainer, EpochBatches batches,
                const FitOptions& options) {
  if (distribute::ServerTraining* servers = trainer.servers()) {
    servers->meet();
    if (!servers->leads()) return followed(trainer, std::move(batches), options);
  }
  Run run(model, trainer, std::move(batches), options);
  if (!options.validation_data) return run.train({});
  EpochBatches held = validation_batches(model, trainer, options);
  return run.train([&](int epoch) { return keras::evaluate(trainer, held, epoch); });
}

}  // namespace

History Model::fit(const Dataset& batches, const FitOptions& options) const {
  Trainer& trainer = this->trainer("fit");
  check(options);
  check_no_arrays(options);
  return trained(
      *this, trainer,
      {kWords, batches, trainer.in_executions(options.steps_per_epoch), trainer.strategy()},
      options);
}

History Model::fit(const distribute::DistributedDataset& batches, const FitOptions& options) const {
  Trainer& trainer = this->trainer("fit");
  check(options);
  check_no_arrays(options);
  check_dealt("fit", trainer, batches);
  return trained(*this, trainer, {kWords, batches, trainer.in_executions(options.steps_per_epoch)},
                 options);
}

Logs Model::train_on_batch(const Tensors& x, const Tensors& y, const Tensor& weight) const {
  Trainer& trainer = this->trainer("train_on_batch");
  Samples{x, y, weight}.rows("train_on_batch");
  check_arrays("train_on_batch", *this, trainer, x, y);
  Tensors batch = x;
  batch.insert(batch.end(), y.begin(), y.end());
  if (weight.defined()) batch.push_back(weight);
  trainer.reset();
  trainer.train(batch);
  trainer.finish();
  Logs logs = trainer.logs();
  if (LossWatch::is_number(logs)) return logs;
  throw LossWatch(trainer).error(logs, "train_on_batch", "this batch");
}

}  // namespace tandem::keras
