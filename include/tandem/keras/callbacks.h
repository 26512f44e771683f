/// Callbacks: what happens at the turns of a training, besides the training.
///
///   model.fit(x, y, {.epochs = 50,
///                    .callbacks = {callbacks::EarlyStopping({.patience = 3}),
///                                  callbacks::CSVLogger("log.csv")}});
///
/// Epochs and steps count from 0. Logs are numbers by name: "loss", the metrics, their "val_" twins
/// and "learning_rate". What a callback throws ends the training.
#pragma once

#include <concepts>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tandem/tensor.h"
#include "tandem/variable.h"

namespace tandem::keras {

using Logs = std::map<std::string, double>;

class Model;

/// The training that a callback is part of.
class TANDEM_API TrainingRun {
 public:
  virtual ~TrainingRun() = default;

  virtual const Model& model() const = 0;
  virtual int epochs() const = 0;
  /// The number of steps of an epoch, where it is known.
  virtual std::optional<int64_t> steps() const = 0;

  /// The metrics of this epoch so far. Waits for the device.
  virtual Logs logs() = 0;

  virtual double learning_rate() const = 0;
  /// Throws FailedPrecondition where a schedule sets the rate.
  virtual void set_learning_rate(double rate) = 0;

  /// No further step is made; the end of the epoch and of the training are announced. Where several
  /// processes train together all stop after the same step, which may be the next.
  virtual void stop() = 0;

  /// Asks for a checkpoint now: on_save is called on all callbacks before the next step. Where
  /// several processes train together it is called on all of them after the same step, which may
  /// be the next; SIGUSR1 and SIGTERM ask for the same.
  virtual void save() {}

  /// False on all but one of several processes that train together. They call the same callbacks;
  /// one that writes files or prints does so on the chief alone.
  virtual bool is_chief() const { return true; }
};

class TANDEM_API Callback {
 public:
  virtual ~Callback() = default;

  virtual void on_train_begin(TrainingRun&) {}
  virtual void on_train_end(TrainingRun&, const Logs&) {}
  virtual void on_epoch_begin(TrainingRun&, int) {}
  /// A callback may add to the logs: those after it and History see it.
  virtual void on_epoch_end(TrainingRun&, int, Logs&) {}
  virtual void on_batch_begin(TrainingRun&, int64_t) {}
  virtual void on_batch_end(TrainingRun&, int64_t) {}
  /// Somebody has asked for a checkpoint: see TrainingRun::save(). So many steps have been made.
  virtual void on_save(TrainingRun&, int64_t) {}
};

/// A callback by value, or shared with the caller, who can then ask it afterwards.
class TANDEM_API AnyCallback {
 public:
  template <std::derived_from<Callback> C>
  AnyCallback(C callback)  // NOLINT(google-explicit-constructor)
      : callback_(std::make_shared<C>(std::move(callback))) {}
  template <std::derived_from<Callback> C>
  AnyCallback(std::shared_ptr<C> callback)  // NOLINT(google-explicit-constructor)
      : callback_(std::move(callback)) {}

  Callback* operator->() const { return callback_.get(); }

 private:
  std::shared_ptr<Callback> callback_;
};

namespace callbacks {

/// Which way is better. By default more is better for names with "acc" or "auc", else less.
enum class Mode { automatic, min, max };

struct EarlyStoppingOptions {
  std::string monitor = "val_loss";
  double min_delta = 0;
  int patience = 0;  ///< Epochs without an improvement that are put up with.
  Mode mode = Mode::automatic;
  std::optional<double> baseline{};  ///< What the first epochs must be better than.
  bool restore_best_weights = false;
  int start_from_epoch = 0;
};

/// Ends the training when a metric no longer improves. Throws InvalidArgument, listing what there
/// is, when the logs do not have it.
class TANDEM_API EarlyStopping : public Callback {
 public:
  explicit EarlyStopping(const EarlyStoppingOptions& options = {});
  void on_train_begin(TrainingRun& run) override;
  void on_epoch_end(TrainingRun& run, int epoch, Logs& logs) override;
  void on_train_end(TrainingRun& run, const Logs& logs) override;

  /// The epoch after which it stopped; none if it did not.
  std::optional<int> stopped_epoch() const { return stopped_epoch_; }
  int best_epoch() const { return best_epoch_; }

 private:
  EarlyStoppingOptions options_;
  double best_ = 0;
  int best_epoch_ = 0;
  int wait_ = 0;
  std::optional<int> stopped_epoch_;
  Tensors best_weights_;
};

struct ModelCheckpointOptions {
  std::string monitor = "val_loss";
  bool save_best_only = false;
  Mode mode = Mode::automatic;
  int save_freq = 1;  ///< The number of epochs from one save to the next.
};

/// Saves the model's weights as a checkpoint after each epoch, and whenever somebody asks for one.
/// "{epoch}" and "{val_loss}" (any log, with a format as in "{val_loss:.2f}") in the path are
/// replaced; epochs are written from 1. Within an epoch the logs are those so far, or the last
/// epoch's.
class TANDEM_API ModelCheckpoint : public Callback {
 public:
  explicit ModelCheckpoint(std::string path, const ModelCheckpointOptions& options = {});
  void on_epoch_begin(TrainingRun& run, int epoch) override;
  void on_epoch_end(TrainingRun& run, int epoch, Logs& logs) override;
  void on_save(TrainingRun& run, int64_t steps) override;

 private:
  void write(TrainingRun& run, const Logs& logs) const;

  std::string path_;
  ModelCheckpointOptions options_;
  int epoch_ = 0;
  Logs last_;  // The last epoch's.
  std::optional<double> best_;
};

struct ReduceLROnPlateauOptions {
  std::string monitor = "val_loss";
  double factor = 0.1;
  int patience = 10;
  Mode mode = Mode::automatic;
  double min_delta = 1e-4;
  int cooldown = 0;
  double min_lr = 0;
};

/// Multiplies the learning rate by `factor`, below 1, when a metric no longer improves.
class TANDEM_API ReduceLROnPlateau : public Callback {
 public:
  explicit ReduceLROnPlateau(const ReduceLROnPlateauOptions& options = {});
  void on_train_begin(TrainingRun& run) override;
  void on_epoch_end(TrainingRun& run, int epoch, Logs& logs) override;

 private:
  ReduceLROnPlateauOptions options_;
  std::optional<double> best_;
  int wait_ = 0;
  int cooling_ = 0;
};

/// Sets the learning rate of each epoch: a function of its number and of the rate so far.
class TANDEM_API LearningRateScheduler : public Callback {
 public:
  using Schedule = std::function<double(int epoch, double rate)>;
  explicit LearningRateScheduler(Schedule schedule) : schedule_(std::move(schedule)) {}
  void on_epoch_begin(TrainingRun& run, int epoch) override;
  void on_epoch_end(TrainingRun& run, int epoch, Logs& logs) override;

 private:
  Schedule schedule_;
};

/// A line of numbers for each epoch. Throws Unavailable when the file cannot be written.
class TANDEM_API CSVLogger : public Callback {
 public:
  explicit CSVLogger(std::filesystem::path path, bool append = false, char separator = ',');
  void on_train_begin(TrainingRun& run) override;
  void on_epoch_end(TrainingRun& run, int epoch, Logs& logs) override;

 private:
  std::filesystem::path path_;
  bool append_;
  char separator_;
  std::vector<std::string> columns_;
};

/// Ends the training when the loss is no number, where fit without it throws. No weight has changed
/// since the first such loss. It looks after each `every` steps, since looking waits for the
/// device.
class TANDEM_API TerminateOnNaN : public Callback {
 public:
  explicit TerminateOnNaN(int64_t every = 1) : every_(every) {}
  void on_batch_end(TrainingRun& run, int64_t step) override;

 private:
  int64_t every_;
};

struct LambdaCallbackOptions {
  std::function<void(TrainingRun&)> on_train_begin{};
  std::function<void(TrainingRun&, const Logs&)> on_train_end{};
  std::function<void(TrainingRun&, int epoch)> on_epoch_begin{};
  std::function<void(TrainingRun&, int epoch, Logs&)> on_epoch_end{};
  std::function<void(TrainingRun&, int64_t step)> on_batch_begin{};
  std::function<void(TrainingRun&, int64_t step)> on_batch_end{};
  std::function<void(TrainingRun&, int64_t steps)> on_save{};
};

class TANDEM_API LambdaCallback : public Callback {
 public:
  explicit LambdaCallback(LambdaCallbackOptions options) : options_(std::move(options)) {}
  void on_train_begin(TrainingRun& run) override;
  void on_train_end(TrainingRun& run, const Logs& logs) override;
  void on_epoch_begin(TrainingRun& run, int epoch) override;
  void on_epoch_end(TrainingRun& run, int epoch, Logs& logs) override;
  void on_batch_begin(TrainingRun& run, int64_t step) override;
  void on_batch_end(TrainingRun& run, int64_t step) override;
  void on_save(TrainingRun& run, int64_t steps) override;

 private:
  LambdaCallbackOptions options_;
};

}  // namespace callbacks
}  // namespace tandem::keras
