#include "keras/training/trainer.h"

#include <fmt/format.h>

#include "collective/collective.h"
#include "distribute/server/server_training.h"
#include "distribute/strategy_body.h"
#include "keras/layers/deferred_updates.h"
#include "keras/losses/replica_rows.h"
#include "keras/models/functional.h"
#include "tandem/error.h"
#include "tandem/gradient_tape.h"
#include "tandem/ops.h"

namespace tandem::keras {

struct Trainer::Batch {
  Tensors x, y;
  Tensor weight;
};

struct Trainer::Losses {
  Tensors own;     // The loss of each output.
  Tensor penalty;  // The regularizers' penalty, or undefined.
  Tensor loss;     // All of them, weighted.
};

struct Trainer::BatchRows {
  Tensor own;     // The rows of this replica, as float64.
  Tensor of_all;  // The rows of all replicas.
};

namespace {

/// The names of a described model's outputs; none where only a call can tell.
std::vector<std::string> described_outputs(const Layer& model) {
  const auto* functional = dynamic_cast<const FunctionalBody*>(model.body().get());
  return functional == nullptr ? std::vector<std::string>() : functional->output_names();
}

/// The elements of the states of all metrics of one output.
int64_t metric_elements(const CompileOptions& options) {
  int64_t count = 0;
  for (const auto* metrics : {&options.metrics, &options.weighted_metrics}) {
    for (const Metric& metric : *metrics) count += metric.state().shape().count();
  }
  return count;
}

Variable sum_variable(int64_t elements) {
  return Variable(zeros({elements}, DType::float64),
                  {.name = "metrics", .trainable = false, .aggregation = VariableAggregation::sum});
}

CompileOptions checked(CompileOptions options, const Layer& model,
                       const distribute::Strategy& strategy) {
  if (options.run_eagerly && strategy.body().servers() != nullptr) {
    throw InvalidArgument(
        fmt::format("compile: run_eagerly under {}, whose workers run compiled steps; debug the "
                    "model outside of the strategy's scope",
                    strategy.name()));
  }
  if (options.run_eagerly && strategy.body().replicas() > 1) {
    throw InvalidArgument(
        fmt::format("compile: run_eagerly with the {} replicas of {}, which run one program "
                    "together; debug the "
                    "model outside of the strategy's scope",
                    strategy.body().replicas(), strategy.name()));
  }
  if (options.run_eagerly && strategy.body().has_automatic_microbatches()) {
    throw InvalidArgument(
        fmt::format("compile: run_eagerly with the automatic micro-batches of {}, which are chosen "
                    "by the memory of compiled steps; debug the model outside of the strategy's "
                    "scope",
                    strategy.name()));
  }
  if (options.loss.empty() && !options.train_step) {
    throw InvalidArgument("compile: loss is empty; give a name as \"mse\" or a keras::Loss");
  }
  const size_t outputs = described_outputs(model).size();
  if (options.loss.size() == 1 && outputs > 1) options.loss.resize(outputs, options.loss[0]);
  if (outputs > 0 && !options.loss.empty() && options.loss.size() != outputs) {
    throw InvalidArgument(fmt::format(
        "compile: loss has {} losses, model '{}' has {} outputs; one for all or one for each is "
        "accepted",
        options.loss.size(), model.name(), outputs));
  }
  if (!options.loss_weights.empty() && options.loss_weights.size() != options.loss.size()) {
    throw InvalidArgument(fmt::format("compile: {} loss_weights for {} losses",
                                      options.loss_weights.size(), options.loss.size()));
  }
  for (const Loss& loss : options.loss) {
    if (loss.reduction() != Reduction::none) continue;
    throw InvalidArgument(fmt::format(
        "compile: loss '{}' has Reduction::none; the others, which give one number, are accepted",
        loss.name()));
  }
  if (options.steps_per_execution < 1) {
    throw InvalidArgument(fmt::format("compile: steps_per_execution is {}, at least 1 is needed",
                                      options.steps_per_execution));
  }
  return options;
}

}  // namespace

Trainer::Trainer(const Layer& model, CompileOptions options, size_t inputs,
                 const distribute::Strategy& strategy)
    : model_(model),
      strategy_(strategy),
      options_(checked(std::move(options), model, strategy)),
      inputs_(inputs),
      output_names_(described_outputs(model)),
      metric_names_(unique_names()),
      state_(sum_variable(static_cast<int64_t>(2 * (outputs() + 1)) +
                          static_cast<int64_t>(outputs()) * metric_elements(options_))),
      own_state_(has_own_steps() ? sum_variable(static_cast<int64_t>(2 * options_.step_logs.size()))
                                 : Variable()),
      train_(
          [this](const Tensors& batch) {
            train_step(batch);
            return Tensors();
          },
          {.name = "train_step"}),
      evaluate_(
          [this](const Tensors& batch) {
            evaluate_step(batch);
            return Tensors();
          },
          {.name = "evaluate_step"}) {}

std::string Trainer::prefix_of(size_t output) const {
  if (outputs() == 1) return {};
  return output_names_.empty() ? fmt::format("output_{}_", output + 1)
                               : output_names_[output] + "_";
}

/// The names of the metrics in the logs, in the order of the state. A weighted metric whose name is
/// taken is "weighted_..", and what is then still taken gets a number: Keras's names.
std::vector<std::string> Trainer::unique_names() const {
  std::map<std::string, int> taken;
  const auto numbered = [&](const std::string& name) {
    const int count = taken[name]++;
    return count == 0 ? name : fmt::format("{}_{}", name, count);
  };
  const size_t plain = options_.metrics.size();
  const size_t each = plain + options_.weighted_metrics.size();
  std::vector<std::string> names(outputs() * each);
  for (size_t i = 0; i < outputs(); ++i) {
    for (size_t m = 0; m < plain; ++m) {
      names[i * each + m] = numbered(prefix_of(i) + options_.metrics[m].name());
    }
  }
  for (size_t i = 0; i < outputs(); ++i) {
    for (size_t m = plain; m < each; ++m) {
      const std::string& own = options_.weighted_metrics[m - plain].name();
      const bool is_taken = taken.contains(prefix_of(i) + own);
      names[i * each + m] = numbered(prefix_of(i) + (is_taken ? "weighted_" : "") + own);
    }
  }
  return names;
}

std::optional<int64_t> Trainer::in_executions(std::optional<int64_t> steps) const {
  const int64_t every = options_.steps_per_execution;
  if (steps && *steps > 0) *steps += (every - *steps % every) % every;
  return steps;
}

distribute::ServerTraining* Trainer::servers() const { return strategy_.body().servers(); }

std::string Trainer::follow(const distribute::BatchNumber& first,
                            const distribute::BatchAt& batch_at) {
  return servers()->follow(train_, first, batch_at);
}

void Trainer::train(const distribute::PerReplicas& batch, const distribute::BatchNumber& number) {
  ran_own_ = bool(options_.train_step);
  if (servers() != nullptr) {
    servers()->schedule(train_, batch, number);
    return;
  }
  options_.run_eagerly ? train_step(whole(batch)) : void(strategy_.run_flat(train_, batch));
}

void Trainer::evaluate(const distribute::PerReplicas& batch) {
  ran_own_ = bool(options_.test_step);
  if (!ran_own_ && outputs() == 0) {
    throw FailedPrecondition(fmt::format(
        "evaluate: model '{}' was compiled with a train_step and no loss; give test_step or loss",
        model_.name()));
  }
  options_.run_eagerly ? evaluate_step(whole(batch)) : void(strategy_.run_flat(evaluate_, batch));
}

void Trainer::finish() const {
  if (servers() != nullptr) servers()->join();
}

std::string Trainer::staleness() const {
  return servers() == nullptr ? std::string() : servers()->statistics().str();
}

/// A batch of one replica.
Tensors Trainer::whole(const distribute::PerReplicas& batch) {
  Tensors tensors;
  for (const distribute::PerReplica& part : batch) tensors.push_back(part.value(0));
  return tensors;
}

Trainer::Batch Trainer::taken_apart(const Tensors& flat) const {
  const size_t without_weight = inputs_ + outputs();
  if (flat.size() != without_weight && flat.size() != without_weight + 1) {
    throw InvalidArgument(fmt::format(
        "{}: an element of the data set has {} tensors; accepted are {} for the inputs, {} for the "
        "outputs, and perhaps a sample weight",
        model_.name(), flat.size(), inputs_, outputs()));
  }
  const auto begin = flat.begin();
  const auto middle = begin + static_cast<ptrdiff_t>(inputs_);
  const auto end = begin + static_cast<ptrdiff_t>(without_weight);
  return {{begin, middle}, {middle, end}, flat.size() > without_weight ? flat.back() : Tensor()};
}

Tensors Trainer::outputs_for(const Tensors& inputs, bool training) const {
  Tensors outputs = model_(inputs, {.training = training});
  if (outputs.size() != this->outputs()) {
    throw InvalidArgument(fmt::format("{}: it has {} outputs, compile was given {} losses",
                                      model_.name(), outputs.size(), this->outputs()));
  }
  return outputs;
}

/// The losses of a batch, by output, as this replica's shares, and what they sum up to with the
/// regularizers' penalty. `loss` is what gradients are taken of.
Trainer::Losses Trainer::losses_of(const Batch& batch, const Tensors& predictions) const {
  Losses losses;
  losses.penalty = model_.regularization_loss();
  losses.loss = losses.penalty;
  for (size_t i = 0; i < outputs(); ++i) {
    losses.own.push_back(options_.loss[i](batch.y[i], predictions[i], batch.weight));
    Tensor own = losses.own.back();
    if (!options_.loss_weights.empty()) own = own * options_.loss_weights[i];
    losses.loss = losses.loss.defined() ? losses.loss + own : own;
  }
  return losses;
}

/// What a batch adds to the state. A loss counts as often as the batch has rows, as in Keras.
Tensor Trainer::delta_of(const Batch& batch, const Tensors& predictions, const Losses& losses,
                         const BatchRows& rows) const {
  Tensors deltas;
  const auto add_loss = [&](const Tensor& share) {
    const Tensor total =
        share.defined() ? cast(share, DType::float64) * rows.of_all : zeros_like(rows.own);
    deltas.push_back(stack({total, rows.own}, 0));
  };
  for (const Tensor& own : losses.own) add_loss(own);
  add_loss(losses.penalty);
  for (size_t i = 0; i < outputs(); ++i) {
    const auto add_metric = [&](const Metric& metric, const Tensor& weight) {
      const Tensor delta = metric.state_delta(batch.y[i], predictions[i], weight);
      deltas.push_back(delta.rank() == 1 ? delta : reshape(delta, {delta.shape().count()}));
    };
    for (const Metric& metric : options_.metrics) add_metric(metric, {});
    for (const Metric& metric : options_.weighted_metrics) add_metric(metric, batch.weight);
  }
  return concat(deltas, 0);
}

/// Whether all losses since the last reset, of all replicas, are numbers: a boolean scalar. From
/// the first that is not, the totals in the state are not either.
Tensor Trainer::are_numbers(const Tensor& losses_of_all) const {
  const int64_t terms = static_cast<int64_t>(2 * (outputs() + 1));
  const Tensor before = reduce_sum(strided_slice(state_.value(), {{.begin = 0, .end = terms}}));
  return is_finite(before + losses_of_all);
}

distribute::PerReplicas split_batch(const distribute::Strategy& strategy, const Tensors& batch,
                                    std::optional<int64_t> global_rows) {
  if (!global_rows || strategy.body().other_replicas() == nullptr) return strategy.split(batch);
  distribute::PerReplicas parts;
  for (const Tensor& tensor : batch) {
    parts.push_back(
        distribute::PerReplica::split_rows(tensor, strategy.body().span(), *global_rows));
  }
  return parts;
}

namespace {

Tensor rows_of(const Tensor& batch) { return reduce_sum(ones_by_row(batch, DType::float64)); }

/// They come with the run; replicas need not meet for them.
Tensor rows_of_all(const Tensor& own_rows) {
  return collective::group_size() == 1 ? own_rows : collective::global_rows();
}

}  // namespace

/// A step that the caller wrote: what it returns goes into the logs.
void Trainer::own_step(const char* which, const StepFn& step, const Tensors& flat) const {
  if (flat.size() < inputs_) {
    throw InvalidArgument(
        fmt::format("{}: an element of the data set has {} tensors, the model has {} inputs",
                    model_.name(), flat.size(), inputs_));
  }
  const size_t known = inputs_ + outputs();
  const bool is_weighted = outputs() > 0 && flat.size() > known;
  const auto at = [&](size_t place) { return flat.begin() + static_cast<ptrdiff_t>(place); };
  const Tensors values = step({.x = {flat.begin(), at(inputs_)},
                               .y = {at(inputs_), at(is_weighted ? known : flat.size())},
                               .sample_weight = is_weighted ? flat[known] : Tensor()});
  if (values.size() != options_.step_logs.size()) {
    throw InvalidArgument(fmt::format("{}: it returned {} values, step_logs names {}", which,
                                      values.size(), options_.step_logs.size()));
  }
  const Tensor own_rows = rows_of(flat[0]);
  const Tensor all_rows = rows_of_all(own_rows);
  Tensors deltas;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].defined() || values[i].rank() != 0) {
      throw InvalidArgument(
          fmt::format("{}: '{}' is {}, a scalar is needed", which, options_.step_logs[i],
                      values[i].defined() ? values[i].shape().str() : std::string("undefined")));
    }
    deltas.push_back(stack({cast(values[i], DType::float64) * all_rows, own_rows}, 0));
  }
  if (!deltas.empty()) own_state_.assign_add(concat(deltas, 0));
}

void Trainer::train_step(const Tensors& flat) const {
  if (options_.train_step) return own_step("train_step", options_.train_step, flat);
  const Batch batch = taken_apart(flat);
  const DeferredUpdates updates;
  GradientTape tape;
  const Tensors predictions = outputs_for(batch.x, true);
  const Losses losses = losses_of(batch, predictions);
  const Variables variables = model_.trainable_weights();
  const Tensors gradients = tape.gradient(losses.loss, variables);
  const Tensor own_rows = rows_of(batch.x[0]);
  const Tensor sound = are_numbers(collective::all_reduce({cast(losses.loss, DType::float64)})[0]);
  options_.optimizer.apply_gradients(gradients, variables, sound);
  updates.commit(sound);
  state_.assign_add(delta_of(batch, predictions, losses, {own_rows, rows_of_all(own_rows)}));
}

void Trainer::evaluate_step(const Tensors& flat) const {
  if (options_.test_step) return own_step("test_step", options_.test_step, flat);
  const Batch batch = taken_apart(flat);
  const Tensors predictions = outputs_for(batch.x, false);
  const Tensor own_rows = rows_of(batch.x[0]);
  state_.assign_add(delta_of(batch, predictions, losses_of(batch, predictions),
                             {own_rows, rows_of_all(own_rows)}));
}

/// The state now. Servers may be changing it.
std::vector<double> Trainer::values_of(const Variable& state) const {
  std::vector<double> values;
  const auto read = [&] { values = state.value().to_vector<double>(); };
  servers() == nullptr ? read() : servers()->read_quietly(read);
  return values;
}

Logs Trainer::own_logs() const {
  Logs logs;
  const std::vector<double> state = values_of(own_state_);
  for (size_t i = 0; i < options_.step_logs.size(); ++i) {
    const double count = state[2 * i + 1];
    logs[options_.step_logs[i]] = count == 0 ? 0 : state[2 * i] / count;
  }
  for (const Metric& metric : options_.step_metrics) logs[metric.name()] = metric.result();
  return logs;
}

Logs Trainer::logs() const {
  if (ran_own_) return own_logs();
  const std::vector<double> state = values_of(state_);
  size_t next = 0;
  const auto mean = [&] {
    const double total = state[next];
    const double count = state[next + 1];
    next += 2;
    return count == 0 ? 0.0 : total / count;
  };
  Logs logs;
  double loss = 0;
  for (size_t i = 0; i < outputs(); ++i) {
    const double own = mean();
    loss += own * (options_.loss_weights.empty() ? 1.0 : options_.loss_weights[i]);
    if (outputs() > 1) logs[prefix_of(i) + "loss"] = own;
  }
  logs["loss"] = loss + mean();
  const auto result = [&](const Metric& metric) {
    if (metric.is_mean()) return mean();
    const Shape& shape = metric.state().shape();
    const auto begin = state.begin() + static_cast<ptrdiff_t>(next);
    next += static_cast<size_t>(shape.count());
    const std::vector<double> own(begin, begin + static_cast<ptrdiff_t>(shape.count()));
    return metric.result_of(Tensor::from(own, shape)).item<double>();
  };
  auto name = metric_names_.begin();
  for (size_t i = 0; i < outputs(); ++i) {
    for (const Metric& metric : options_.metrics) logs[*name++] = result(metric);
    for (const Metric& metric : options_.weighted_metrics) logs[*name++] = result(metric);
  }
  return logs;
}

void Trainer::reset() {
  state_.assign(zeros(state_.shape(), DType::float64));
  if (!has_own_steps()) return;
  own_state_.assign(zeros(own_state_.shape(), DType::float64));
  for (const Metric& metric : options_.step_metrics) metric.reset_state();
}

}  // namespace tandem::keras
