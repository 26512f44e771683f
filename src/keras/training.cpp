#include "keras/training.h"

#include <fmt/format.h>

#include "collective/collective.h"
#include "keras/deferred_updates.h"
#include "keras/functional.h"
#include "tandem/error.h"
#include "tandem/gradient_tape.h"
#include "tandem/ops.h"

namespace tandem::keras {

struct Training::Batch {
  Tensors x, y;
  Tensor weight;
};

struct Training::Gathered {
  Tensor delta;   // Of the state.
  Tensor losses;  // The sum of the losses' totals, a scalar.
};

namespace {

/// Of a described model; none where only a call can tell.
std::vector<std::string> described_outputs(const Layer& model) {
  const auto* functional = dynamic_cast<const FunctionalBody*>(model.body().get());
  return functional == nullptr ? std::vector<std::string>() : functional->output_names();
}

CompileOptions checked(CompileOptions options, const Layer& model,
                       const distribute::Strategy& strategy) {
  if (options.run_eagerly && strategy.num_replicas_in_sync() > 1) {
    throw InvalidArgument(
        fmt::format("compile: run_eagerly with the {} replicas of {}, which run one program "
                    "together; debug the "
                    "model outside of the strategy's scope",
                    strategy.num_replicas_in_sync(), strategy.name()));
  }
  if (options.loss.empty()) {
    throw InvalidArgument("compile: loss is empty; give a name as \"mse\" or a keras::Loss");
  }
  const size_t outputs = described_outputs(model).size();
  if (options.loss.size() == 1 && outputs > 1) options.loss.resize(outputs, options.loss[0]);
  if (outputs > 0 && options.loss.size() != outputs) {
    throw InvalidArgument(fmt::format(
        "compile: loss has {} losses, model '{}' has {} outputs; one for all or one for each is "
        "accepted",
        options.loss.size(), model.name(), outputs));
  }
  if (!options.loss_weights.empty() && options.loss_weights.size() != options.loss.size()) {
    throw InvalidArgument(fmt::format("compile: {} loss_weights for {} losses",
                                      options.loss_weights.size(), options.loss.size()));
  }
  if (options.steps_per_execution < 1) {
    throw InvalidArgument(fmt::format("compile: steps_per_execution is {}, at least 1 is needed",
                                      options.steps_per_execution));
  }
  return options;
}

}  // namespace

Training::Training(const Layer& model, CompileOptions options, size_t inputs,
                   const distribute::Strategy& strategy)
    : model_(model),
      strategy_(strategy),
      options_(checked(std::move(options), model, strategy)),
      inputs_(inputs),
      output_names_(described_outputs(model)),
      state_(zeros({static_cast<int64_t>(2 * (outputs() * (1 + options_.metrics.size()) + 1))},
                   DType::float64),
             {.name = "metrics", .trainable = false, .aggregation = VariableAggregation::sum}),
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

void Training::train(const Tensors& batch) {
  options_.run_eagerly ? train_step(batch) : run(train_, batch);
}

void Training::evaluate(const Tensors& batch) {
  options_.run_eagerly ? evaluate_step(batch) : run(evaluate_, batch);
}

void Training::run(const FlatFunction& step, const Tensors& batch) const {
  strategy_.run_flat(step, strategy_.split(batch));
}

Training::Batch Training::taken_apart(const Tensors& flat) const {
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

Tensors Training::outputs_for(const Tensors& inputs, bool training) const {
  Tensors outputs = model_(inputs, {.training = training});
  if (outputs.size() != this->outputs()) {
    throw InvalidArgument(fmt::format("{}: it has {} outputs, compile was given {} losses",
                                      model_.name(), outputs.size(), this->outputs()));
  }
  return outputs;
}

/// What a batch adds to the state.
Training::Gathered Training::gathered(const Batch& batch, const Tensors& predictions) const {
  Tensors deltas;
  Tensor losses;
  const auto pair = [&](const Tensor& total, const Tensor& count) {
    deltas.push_back(stack({cast(total, DType::float64), cast(count, DType::float64)}, 0));
  };
  const auto add_loss = [&](const Tensor& total) {
    const Tensor own = cast(total, DType::float64);
    losses = losses.defined() ? losses + own : own;
  };
  Tensor examples;
  for (size_t i = 0; i < outputs(); ++i) {
    const LossTerm term = options_.loss[i].terms(batch.y[i], predictions[i], batch.weight);
    pair(term.sum, term.weight);
    add_loss(term.sum);
    if (i == 0) examples = term.weight;
  }
  const Tensor penalty = model_.regularization_loss();
  if (penalty.defined()) add_loss(penalty);
  const double replicas = strategy_.num_replicas_in_sync();
  pair(penalty.defined() ? cast(penalty, examples.dtype()) * examples * replicas
                         : zeros_like(examples),
       examples);
  for (size_t i = 0; i < outputs(); ++i) {
    for (const Metric& metric : options_.metrics) {
      deltas.push_back(metric.state_delta(batch.y[i], predictions[i], batch.weight));
    }
  }
  return {concat(deltas, 0), losses};
}

/// Whether all losses since the last reset, of all replicas, are numbers: a boolean scalar. From
/// the first that is not, the totals in the state are not either.
Tensor Training::are_numbers(const Tensor& losses) const {
  const int64_t terms = static_cast<int64_t>(2 * (outputs() + 1));
  const Tensor before = reduce_sum(strided_slice(state_.value(), {{.begin = 0, .end = terms}}));
  return is_finite(before + collective::all_reduce({losses})[0]);
}

void Training::train_step(const Tensors& flat) const {
  const Batch batch = taken_apart(flat);
  Tensors predictions;
  const DeferredUpdates updates;
  GradientTape tape;
  predictions = outputs_for(batch.x, true);
  Tensor loss = model_.regularization_loss();
  for (size_t i = 0; i < outputs(); ++i) {
    Tensor own = options_.loss[i](batch.y[i], predictions[i], batch.weight);
    if (!options_.loss_weights.empty()) own = own * options_.loss_weights[i];
    loss = loss.defined() ? loss + own : own;
  }
  const Variables variables = model_.trainable_weights();
  const Tensors gradients = tape.gradient(loss, variables);
  const Gathered gathered = this->gathered(batch, predictions);
  const Tensor sound = are_numbers(gathered.losses);
  options_.optimizer.apply_gradients(gradients, variables, sound);
  updates.commit(sound);
  state_.assign_add(gathered.delta);
}

void Training::evaluate_step(const Tensors& flat) const {
  const Batch batch = taken_apart(flat);
  state_.assign_add(gathered(batch, outputs_for(batch.x, false)).delta);
}

Logs Training::logs() const {
  const std::vector<double> state = state_.value().to_vector<double>();
  size_t next = 0;
  const auto mean = [&] {
    const double total = state[next];
    const double count = state[next + 1];
    next += 2;
    return count == 0 ? 0.0 : total / count;
  };
  const auto prefix = [&](size_t output) {
    if (outputs() == 1) return std::string();
    return output_names_.empty() ? fmt::format("output_{}_", output + 1)
                                 : output_names_[output] + "_";
  };
  Logs logs;
  double loss = 0;
  for (size_t i = 0; i < outputs(); ++i) {
    const double own = mean();
    loss += own * (options_.loss_weights.empty() ? 1.0 : options_.loss_weights[i]);
    if (outputs() > 1) logs[prefix(i) + "loss"] = own;
  }
  logs["loss"] = loss + mean();
  for (size_t i = 0; i < outputs(); ++i) {
    for (const Metric& metric : options_.metrics) logs[prefix(i) + metric.name()] = mean();
  }
  return logs;
}

void Training::reset() { state_.assign(zeros(state_.shape(), DType::float64)); }

}  // namespace tandem::keras
