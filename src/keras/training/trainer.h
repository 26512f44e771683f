/// A compiled model: its steps as functions, and the state that metrics gather in.
#pragma once

#include "distribute/server/server_training.h"
#include "tandem/data.h"
#include "tandem/distribute.h"
#include "tandem/function.h"
#include "tandem/keras/model.h"
#include "tandem/keras/training.h"

namespace tandem::keras {

class Trainer {
 public:
  Trainer(const Layer& model, CompileOptions options, size_t inputs,
          const distribute::Strategy& strategy);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  const CompileOptions& options() const { return options_; }
  const distribute::Strategy& strategy() const { return strategy_; }
  size_t inputs() const { return inputs_; }
  size_t outputs() const { return options_.loss.size(); }
  /// The steps of fit or evaluate are the caller's own: what they make of a batch is their affair.
  bool has_own_steps() const { return options_.train_step || options_.test_step; }

  /// So many steps, or as many more as fill the last execution.
  std::optional<int64_t> in_executions(std::optional<int64_t> steps) const;

  /// `batch` is the inputs, the truths of the outputs and perhaps a sample weight. One step on it;
  /// what it gives the metrics stays on the device. Where there are several processes each has the
  /// whole batch, or it is dealt already.
  void train(const Tensors& batch) { train(strategy_.split(batch)); }
  /// `number` is the batch's, where parameter servers have the variables.
  void train(const distribute::PerReplicas& batch, const distribute::BatchNumber& number = {});
  void evaluate(const distribute::PerReplicas& batch);

  /// Where parameter servers have the variables, steps are done in the background: waits for them,
  /// and throws what they threw.
  void finish() const;
  /// What a process does that does not lead a training with parameter servers: its part of the
  /// steps, until the chief has ended. Returns what the chief has told.
  std::string follow(const distribute::BatchNumber& first, const distribute::BatchAt& batch_at);
  /// The parameter servers; null where there are none.
  distribute::ServerTraining* servers() const;
  /// How stale their updates were, for people; empty where there are no servers.
  std::string staleness() const;

  /// The largest power of two, at most `rows`, with which a step of training stays within 90 % of
  /// the memory limit of each device. `batch` is some of the rows, as train() takes them; nothing
  /// is trained. Throws ResourceExhausted where a single row is too much.
  int64_t largest_batch(const Tensors& batch, int64_t rows);

  /// The metrics since the last reset. Waits for the device.
  Logs logs() const;
  void reset();

 private:
  void compile(const FlatFunction& step, const Tensors& batch) const;
  struct Batch;
  static Tensors whole(const distribute::PerReplicas& batch);
  Batch taken_apart(const Tensors& flat) const;
  Tensors outputs_for(const Tensors& inputs, bool training) const;
  struct Losses;
  Losses losses_of(const Batch& batch, const Tensors& predictions) const;
  struct BatchRows;
  Tensor delta_of(const Batch& batch, const Tensors& predictions, const Losses& losses,
                  const BatchRows& rows) const;
  Tensor are_numbers(const Tensor& losses_of_all) const;
  void train_step(const Tensors& batch) const;
  void evaluate_step(const Tensors& batch) const;
  void own_step(const char* which, const StepFn& step, const Tensors& batch) const;
  Logs own_logs() const;
  std::string prefix_of(size_t output) const;
  std::vector<std::string> unique_names() const;
  std::vector<double> values_of(const Variable& state) const;

  const Layer model_;
  const distribute::Strategy strategy_;
  CompileOptions options_;
  size_t inputs_;
  std::vector<std::string> output_names_;
  std::vector<std::string> metric_names_;
  // {total, count} of each loss and of the regularizers, then the state of each metric in turn.
  Variable state_;
  Variable own_state_;    // {total, count} of each of step_logs.
  bool ran_own_ = false;  // The last step was one of the caller's own.
  FlatFunction train_, evaluate_;
};

/// The batch for a step of `strategy`: whole, or with `global_rows` given the rows of this
/// process's replicas.
distribute::PerReplicas split_batch(const distribute::Strategy& strategy, const Tensors& batch,
                                    std::optional<int64_t> global_rows);

}  // namespace tandem::keras
