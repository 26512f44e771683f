// Metrics: each is a function of examples and a state, mostly {total, count}, to which replicas and
// steps add.
#include "tandem/keras/metrics.h"

#include <fmt/format.h>

#include <numeric>
#include <vector>

#include "collective/parts.h"
#include "core/tensor_type.h"
#include "keras/losses/label_shapes.h"
#include "keras/losses/loss_functions.h"
#include "keras/losses/replica_rows.h"
#include "keras/metrics/metric_functions.h"
#include "tandem/error.h"
#include "tandem/keras/losses.h"
#include "tandem/ops.h"

namespace tandem::keras {
namespace {

struct KnownMetric {
  const char* name;
  Metric::PerExample (*make)(const std::string& name);
};

const KnownMetric kMetrics[] = {
    {"accuracy", [](const std::string& name) { return metrics::accuracy(name); }},
    {"acc", [](const std::string& name) { return metrics::accuracy(name); }},
    {"binary_accuracy",
     [](const std::string& name) { return metrics::binary_accuracy(name, 0.5); }},
    {"categorical_accuracy",
     [](const std::string& name) { return metrics::categorical_accuracy(name); }},
    {"sparse_categorical_accuracy",
     [](const std::string& name) { return metrics::sparse_categorical_accuracy(name); }},
    {"top_k_categorical_accuracy",
     [](const std::string& name) { return metrics::top_k_categorical_accuracy(name, 5); }},
    {"sparse_top_k_categorical_accuracy",
     [](const std::string& name) { return metrics::sparse_top_k_categorical_accuracy(name, 5); }},
};

Metric::PerExample per_example_of(const Loss& loss) {
  return [loss](const Tensor& y_true, const Tensor& y_pred) {
    return loss.per_example(y_true, y_pred);
  };
}

Metric::PerExample function_named(const std::string& name) {
  std::vector<std::string> accepted;
  for (const KnownMetric& named : kMetrics) {
    if (name == named.name) return named.make(name);
    accepted.emplace_back(named.name);
  }
  for (const std::string& loss : losses::known_names()) {
    if (name == loss) return per_example_of(Loss(name));
    accepted.push_back(loss);
  }
  throw InvalidArgument(
      fmt::format("metric: '{}' is unknown; there are '{}'", name, fmt::join(accepted, "', '")));
}

/// The mean over all axes but the first.
Tensor row_means(const Tensor& x) {
  if (x.rank() < 2) return x;
  std::vector<int> axes(static_cast<size_t>(x.rank() - 1));
  std::iota(axes.begin(), axes.end(), 1);
  return reduce_mean(x, {.axes = axes});
}

/// Both sums in one pass.
Tensor sums(const Tensor& totals, const Tensor& counts) {
  const Tensor pairs = stack({totals, counts}, -1);
  return pairs.rank() == 1 ? pairs : reduce_sum(pairs, {.axes = {{0}}});
}

/// {total, count}: each row counts once, or as often as the mean of its weights says.
Tensor mean_state(const std::string& name, const Tensor& given, const Tensor& sample_weight) {
  const Tensor values = as_dtype(given, DType::float64);
  if (!sample_weight.defined()) {
    const Tensor rows = row_means(values);
    return share_of_sum(sums(rows, ones_like(rows)));
  }
  Tensor weight = weight_for(name, "sample_weight", sample_weight, values);
  if (weight.shape() != values.shape()) weight = broadcast_to(weight, values.shape());
  return share_of_sum(sums(row_means(values * weight), row_means(weight)));
}

}  // namespace

struct Metric::Body {
  std::string name;
  Stateful stateful;
  bool is_mean;
  Variable state;
};

Metric::Metric(const std::string& name) : Metric(name, function_named(name)) {}
Metric::Metric(const char* name) : Metric(std::string(name)) {}

namespace {

Variable state_variable(const std::string& name, const Shape& shape) {
  return Variable(
      zeros(shape, DType::float64),
      {.name = name + "/state", .trainable = false, .aggregation = VariableAggregation::sum});
}

/// A scalar is the mean over the batch and counts as one example.
Tensor mean_delta(const std::string& name, const Metric::PerExample& per_example,
                  const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight) {
  const Tensor values = per_example(y_true, y_pred);
  if (values.rank() > 0 || sample_weight.defined()) return mean_state(name, values, sample_weight);
  const Tensor value = as_dtype(values, DType::float64);
  return stack({share_of(value, y_pred), share_of(ones_like(value), y_pred)}, 0);
}

Metric::Stateful mean_of(const std::string& name, Metric::PerExample per_example) {
  if (per_example == nullptr) {
    throw InvalidArgument(fmt::format("{}: a metric needs a function", name));
  }
  return {
      .shape = {2},
      .delta = [name, each = std::move(per_example)](
                   const Tensor& y_true, const Tensor& y_pred,
                   const Tensor& weight) { return mean_delta(name, each, y_true, y_pred, weight); },
      .value = Metric::value_of};
}

}  // namespace

Metric::Metric(const std::string& name, PerExample per_example)
    : body_(std::make_shared<const Body>(
          Body{name, mean_of(name, std::move(per_example)), true, state_variable(name, {2})})) {
  track("state", body_->state);
}

Metric::Metric(const std::string& name, Stateful stateful)
    : body_(std::make_shared<const Body>(
          Body{name, stateful, false, state_variable(name, stateful.shape)})) {
  if (stateful.delta == nullptr || stateful.value == nullptr) {
    throw InvalidArgument(
        fmt::format("{}: a metric with a state of its own needs delta and value", name));
  }
  track("state", body_->state);
}

const std::string& Metric::name() const { return body_->name; }
const Variable& Metric::state() const { return body_->state; }

Tensor Metric::state_delta(const Tensor& y_true, const Tensor& given,
                           const Tensor& sample_weight) const {
  const Tensor y_pred = collective::gather_parts(given);
  const Stateful& stateful = body_->stateful;
  Tensor delta = stateful.delta(y_true, y_pred, sample_weight);
  const TensorType wanted{DType::float64, stateful.shape};
  if (type_of(delta) == wanted) return is_mean() ? delta : share_of_sum(delta);
  throw InvalidArgument(fmt::format("{}: a batch adds {} to its state, {}", name(),
                                    type_of(delta).str(), wanted.str()));
}

void Metric::update_state(const Tensor& y_true, const Tensor& y_pred,
                          const Tensor& sample_weight) const {
  state().assign_add(state_delta(y_true, y_pred, sample_weight));
}

double Metric::result() const { return result_of(state().value()).item<double>(); }

Tensor Metric::result_of(const Tensor& state) const { return body_->stateful.value(state); }
bool Metric::is_mean() const { return body_->is_mean; }

Tensor Metric::value_of(const Tensor& state) {
  if (state.shape() != Shape{2}) {
    throw InvalidArgument(
        fmt::format("metric: a state is [2], total and count, not {}", state.shape().str()));
  }
  const Tensors parts = unstack(state);
  const Tensor nothing = equal(parts[1], zeros_like(parts[1]));
  const Tensor mean = parts[0] / where(nothing, ones_like(parts[1]), parts[1]);
  return where(nothing, zeros_like(mean), mean);
}

void Metric::reset_state() const { state().assign(zeros(state().shape(), DType::float64)); }

namespace metrics {

Mean::Mean(const std::string& name)
    : Metric(name, [name](const Tensor&, const Tensor&) -> Tensor {
        throw InvalidArgument(
            fmt::format("{}: a Mean is of values, not of truth and predictions", name));
      }) {}

Tensor Mean::state_delta(const Tensor& values, const Tensor& sample_weight) const {
  return mean_state(name(), values, sample_weight);
}

void Mean::update_state(const Tensor& values, const Tensor& sample_weight) const {
  state().assign_add(state_delta(values, sample_weight));
}

BinaryAccuracy::BinaryAccuracy(const BinaryAccuracyOptions& options)
    : Metric(options.name, binary_accuracy(options.name, options.threshold)) {}

CategoricalAccuracy::CategoricalAccuracy(const std::string& name)
    : Metric(name, categorical_accuracy(name)) {}

SparseCategoricalAccuracy::SparseCategoricalAccuracy(const std::string& name)
    : Metric(name, sparse_categorical_accuracy(name)) {}

TopKCategoricalAccuracy::TopKCategoricalAccuracy(const TopKCategoricalAccuracyOptions& options)
    : Metric(options.name, top_k_categorical_accuracy(options.name, options.k)) {}

SparseTopKCategoricalAccuracy::SparseTopKCategoricalAccuracy(
    const SparseTopKCategoricalAccuracyOptions& options)
    : Metric(options.name, sparse_top_k_categorical_accuracy(options.name, options.k)) {}

namespace {

/// {those that are 1 and said to be, all those of `counted`}: a part that is 0 of nothing.
Metric::Stateful part_of_hits(const std::string& name, double threshold,
                              Tensor (*counted)(const Tensor& is_one, const Tensor& said_one)) {
  const auto delta = [=](const Tensor& y_true, const Tensor& y_pred, const Tensor& given) {
    const Tensor pred = as_dtype(y_pred, DType::float64);
    const Tensor is_one = reshape(as_dtype(y_true, DType::float64), pred.shape());
    const Tensor said_one = cast(greater(pred, Tensor(threshold)), DType::float64);
    Tensor weight = ones_like(pred);
    if (given.defined()) weight = weight * weight_for(name, "sample_weight", given, pred);
    return stack(
        {reduce_sum(is_one * said_one * weight), reduce_sum(counted(is_one, said_one) * weight)},
        0);
  };
  return {.shape = {2}, .delta = delta, .value = Metric::value_of};
}

std::string named_or(const std::string& given, const char* usual) {
  return given.empty() ? usual : given;
}

}  // namespace

Precision::Precision(const ThresholdOptions& options)
    : Metric(named_or(options.name, "precision"),
             part_of_hits(named_or(options.name, "precision"), options.threshold,
                          [](const Tensor&, const Tensor& said_one) { return said_one; })) {}

Recall::Recall(const ThresholdOptions& options)
    : Metric(named_or(options.name, "recall"),
             part_of_hits(named_or(options.name, "recall"), options.threshold,
                          [](const Tensor& is_one, const Tensor&) { return is_one; })) {}

MeanSquaredError::MeanSquaredError(const std::string& name)
    : Metric(name, losses::mean_squared_error(name)) {}

MeanAbsoluteError::MeanAbsoluteError(const std::string& name)
    : Metric(name, losses::mean_absolute_error(name)) {}

}  // namespace metrics
}  // namespace tandem::keras
