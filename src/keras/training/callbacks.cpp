// The callbacks that come with the library. Those that stop or save compare a logged value with the
// best one so far, as Keras's do.
#include "tandem/keras/callbacks.h"

#include <fmt/args.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include "tandem/checkpoint.h"
#include "tandem/error.h"
#include "tandem/keras/model.h"
#include "tandem/log.h"
#include "tensor/shared_stores.h"

namespace tandem::keras::callbacks {
namespace {

double monitored(const Logs& logs, const std::string& name, const char* who) {
  const auto found = logs.find(name);
  if (found != logs.end()) return found->second;
  std::string known;
  for (const auto& [key, value] : logs) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", key);
  }
  throw InvalidArgument(fmt::format(
      "{}: monitor is '{}', the logs have {}{}", who, name, known,
      name.starts_with("val_") ? "; give fit validation_data or validation_split" : ""));
}

bool more_is_better(Mode mode, const std::string& monitor) {
  if (mode != Mode::automatic) return mode == Mode::max;
  return monitor.find("acc") != std::string::npos || monitor.find("auc") != std::string::npos;
}

/// True when `now` is better than `best` by more than `delta`.
bool improves(double now, double best, double delta, bool more) {
  return more ? now - delta > best : now + delta < best;
}

double worst(bool more) {
  return more ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
}

/// The weights of a model, undefined where another process keeps one.
Tensors weights_here(const Model& model) {
  Tensors values;
  for (const Variable& weight : model.weights()) {
    values.push_back(is_kept_elsewhere(weight.body()->range) ? Tensor() : weight.value());
  }
  return values;
}

void set_weights_here(const Model& model, const Tensors& values) {
  const Variables weights = model.weights();
  for (size_t i = 0; i < weights.size(); ++i) {
    if (values[i].defined()) weights[i].assign(values[i]);
  }
}

}  // namespace

EarlyStopping::EarlyStopping(const EarlyStoppingOptions& options) : options_(options) {
  options_.min_delta = std::abs(options.min_delta);
}

void EarlyStopping::on_train_begin(TrainingRun&) {
  wait_ = 0;
  stopped_epoch_.reset();
  best_epoch_ = 0;
  best_weights_.clear();
  best_ = worst(more_is_better(options_.mode, options_.monitor));
}

void EarlyStopping::on_epoch_end(TrainingRun& run, int epoch, Logs& logs) {
  const double now = monitored(logs, options_.monitor, "EarlyStopping");
  if (epoch < options_.start_from_epoch) return;
  const bool more = more_is_better(options_.mode, options_.monitor);
  if (options_.restore_best_weights && best_weights_.empty()) {
    best_weights_ = weights_here(run.model());
    best_epoch_ = epoch;
  }
  ++wait_;
  if (improves(now, best_, options_.min_delta, more)) {
    best_ = now;
    best_epoch_ = epoch;
    if (options_.restore_best_weights) best_weights_ = weights_here(run.model());
    if (!options_.baseline || improves(now, *options_.baseline, options_.min_delta, more))
      wait_ = 0;
    return;
  }
  if (wait_ >= std::max(options_.patience, 1) && epoch > 0) {
    stopped_epoch_ = epoch;
    run.stop();
  }
}

void EarlyStopping::on_train_end(TrainingRun& run, const Logs&) {
  if (options_.restore_best_weights && !best_weights_.empty()) {
    set_weights_here(run.model(), best_weights_);
  }
}

ModelCheckpoint::ModelCheckpoint(std::string path, const ModelCheckpointOptions& options)
    : path_(std::move(path)), options_(options) {
  if (options.save_freq < 1) {
    throw InvalidArgument(
        fmt::format("ModelCheckpoint: save_freq is {}, at least 1 is needed", options.save_freq));
  }
}

void ModelCheckpoint::on_epoch_begin(TrainingRun&, int epoch) { epoch_ = epoch; }

void ModelCheckpoint::on_epoch_end(TrainingRun& run, int epoch, Logs& logs) {
  epoch_ = epoch;
  last_ = logs;
  if ((epoch + 1) % options_.save_freq != 0) return;
  if (options_.save_best_only) {
    const double now = monitored(logs, options_.monitor, "ModelCheckpoint");
    const bool more = more_is_better(options_.mode, options_.monitor);
    if (best_ && !improves(now, *best_, 0, more)) return;
    best_ = now;
  }
  write(run, logs);
}

/// The first epoch has no results of validation yet: what the path names of them is NaN.
void ModelCheckpoint::on_save(TrainingRun& run, int64_t) {
  Logs logs = run.logs();
  logs.insert(last_.begin(), last_.end());
  for (const auto& [name, value] : Logs(logs)) {
    logs.emplace("val_" + name, std::numeric_limits<double>::quiet_NaN());
  }
  write(run, logs);
}

void ModelCheckpoint::write(TrainingRun& run, const Logs& logs) const {
  fmt::dynamic_format_arg_store<fmt::format_context> values;
  values.push_back(fmt::arg("epoch", epoch_ + 1));
  for (const auto& [name, value] : logs) values.push_back(fmt::arg(name.c_str(), value));
  std::string path;
  try {
    path = fmt::vformat(path_, values);
  } catch (const fmt::format_error& error) {
    throw InvalidArgument(fmt::format(
        "ModelCheckpoint: the path '{}': {}; it may have {{epoch}} and the names of the logs",
        path_, error.what()));
  }
  // The chief writes. Where weights are in parts, all take part in that.
  train::Checkpoint({{"model", run.model()}}).write(path);
}

ReduceLROnPlateau::ReduceLROnPlateau(const ReduceLROnPlateauOptions& options) : options_(options) {
  if (!(options.factor < 1)) {
    throw InvalidArgument(
        fmt::format("ReduceLROnPlateau: factor is {}, below 1 is needed", options.factor));
  }
}

void ReduceLROnPlateau::on_train_begin(TrainingRun&) {
  best_.reset();
  wait_ = 0;
  cooling_ = 0;
}

void ReduceLROnPlateau::on_epoch_end(TrainingRun& run, int, Logs& logs) {
  logs["learning_rate"] = run.learning_rate();
  const double now = monitored(logs, options_.monitor, "ReduceLROnPlateau");
  const bool more = more_is_better(options_.mode, options_.monitor);
  if (cooling_ > 0) {
    --cooling_;
    wait_ = 0;
  }
  if (!best_ || improves(now, *best_, options_.min_delta, more)) {
    best_ = now;
    wait_ = 0;
    return;
  }
  if (cooling_ > 0 || ++wait_ < options_.patience) return;
  const double old = run.learning_rate();
  if (old <= options_.min_lr) return;
  run.set_learning_rate(std::max(old * options_.factor, options_.min_lr));
  cooling_ = options_.cooldown;
  wait_ = 0;
}

void LearningRateScheduler::on_epoch_begin(TrainingRun& run, int epoch) {
  run.set_learning_rate(schedule_(epoch, run.learning_rate()));
}

void LearningRateScheduler::on_epoch_end(TrainingRun& run, int, Logs& logs) {
  logs["learning_rate"] = run.learning_rate();
}

CSVLogger::CSVLogger(std::filesystem::path path, bool append, char separator)
    : path_(std::move(path)), append_(append), separator_(separator) {}

void CSVLogger::on_train_begin(TrainingRun& run) {
  if (!run.is_chief()) return;
  columns_.clear();
  const bool keep = append_ && std::filesystem::exists(path_);
  std::ofstream file(path_, keep ? std::ios::app : std::ios::trunc);
  if (!file) {
    throw Unavailable(fmt::format("CSVLogger: '{}' cannot be written", path_.string()));
  }
}

void CSVLogger::on_epoch_end(TrainingRun& run, int epoch, Logs& logs) {
  if (!run.is_chief()) return;
  std::ofstream file(path_, std::ios::app);
  if (columns_.empty()) {
    for (const auto& [name, value] : logs) columns_.push_back(name);
    if (std::filesystem::file_size(path_) == 0) {
      file << "epoch";
      for (const std::string& name : columns_) file << separator_ << name;
      file << "\n";
    }
  }
  file << epoch;
  for (const std::string& name : columns_) {
    const auto found = logs.find(name);
    file << separator_ << (found == logs.end() ? "NA" : fmt::format("{}", found->second));
  }
  file << "\n";
  if (!file.flush()) {
    throw Unavailable(fmt::format("CSVLogger: '{}' cannot be written", path_.string()));
  }
}

void TerminateOnNaN::on_batch_end(TrainingRun& run, int64_t step) {
  if ((step + 1) % every_ != 0) return;
  const Logs logs = run.logs();
  const auto loss = logs.find("loss");
  if (loss == logs.end() || std::isfinite(loss->second)) return;
  logging::write(
      logging::Level::warning,
      fmt::format("TerminateOnNaN: the loss is {} at step {}; training ends", loss->second, step));
  run.stop();
}

namespace {
template <class F, class... Args>
void call(const F& f, Args&... args) {
  if (f) f(args...);
}
}  // namespace

void LambdaCallback::on_train_begin(TrainingRun& run) { call(options_.on_train_begin, run); }
void LambdaCallback::on_train_end(TrainingRun& run, const Logs& logs) {
  call(options_.on_train_end, run, logs);
}
void LambdaCallback::on_epoch_begin(TrainingRun& run, int epoch) {
  call(options_.on_epoch_begin, run, epoch);
}
void LambdaCallback::on_epoch_end(TrainingRun& run, int epoch, Logs& logs) {
  call(options_.on_epoch_end, run, epoch, logs);
}
void LambdaCallback::on_batch_begin(TrainingRun& run, int64_t step) {
  call(options_.on_batch_begin, run, step);
}
void LambdaCallback::on_batch_end(TrainingRun& run, int64_t step) {
  call(options_.on_batch_end, run, step);
}
void LambdaCallback::on_save(TrainingRun& run, int64_t steps) {
  call(options_.on_save, run, steps);
}

}  // namespace tandem::keras::callbacks
