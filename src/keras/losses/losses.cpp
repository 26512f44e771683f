// Losses: a function of examples, and the reduction of what it gives to one number. Under a
// strategy the number that a sum is divided by counts the examples of all replicas, so that the sum
// over the replicas is the loss of the batch.
#include "tandem/keras/losses.h"

#include <fmt/format.h>

#include "collective/collective.h"
#include "collective/parts.h"
#include "keras/losses/label_shapes.h"
#include "keras/losses/loss_functions.h"
#include "keras/losses/replica_rows.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem::keras {
namespace {

struct KnownLoss {
  const char* name;
  Loss (*make)(const std::string& name);
};

template <class Kind, class Options>
Loss make(const std::string& name) {
  Options options;
  options.name = name;
  return Kind(options);
}

constexpr KnownLoss kLosses[] = {
    {"categorical_crossentropy",
     make<losses::CategoricalCrossentropy, losses::CategoricalCrossentropyOptions>},
    {"sparse_categorical_crossentropy",
     make<losses::SparseCategoricalCrossentropy, losses::SparseCategoricalCrossentropyOptions>},
    {"binary_crossentropy", make<losses::BinaryCrossentropy, losses::BinaryCrossentropyOptions>},
    {"mean_squared_error", make<losses::MeanSquaredError, losses::MeanSquaredErrorOptions>},
    {"mse", make<losses::MeanSquaredError, losses::MeanSquaredErrorOptions>},
    {"mean_absolute_error", make<losses::MeanAbsoluteError, losses::MeanAbsoluteErrorOptions>},
    {"mae", make<losses::MeanAbsoluteError, losses::MeanAbsoluteErrorOptions>},
    {"huber", make<losses::Huber, losses::HuberOptions>},
};

Loss loss_named(const std::string& name) {
  for (const KnownLoss& named : kLosses) {
    if (name == named.name) return named.make(name);
  }
  throw InvalidArgument(fmt::format("loss: '{}' is unknown; there are '{}'", name,
                                    fmt::join(losses::known_names(), "', '")));
}

/// The product of those that are defined.
Tensor times(const Tensor& a, const Tensor& b) {
  if (!a.defined()) return b;
  return b.defined() ? a * b : a;
}

/// The sum of `x`, repeated to the shape of `values`.
Tensor broadcast_sum(const Tensor& x, const Tensor& values) {
  return reduce_sum(x.shape() == values.shape() ? x : broadcast_to(x, values.shape()));
}

/// What examples count: both undefined where not given, else of the losses' rank and dtype.
struct Weights {
  Tensor sample_weight;
  Tensor mask;
};

Weights weights_for(const std::string& name, const Tensor& values, const Tensor& sample_weight,
                    const Tensor& mask) {
  Weights weights;
  if (sample_weight.defined()) {
    weights.sample_weight = weight_for(name, "sample_weight", sample_weight, values);
  }
  if (mask.defined()) {
    const Tensor kept =
        mask.dtype() == DType::boolean ? mask : not_equal(mask, scalar_like(0, mask));
    weights.mask = weight_for(name, "mask", kept, values);
  }
  return weights;
}

Tensor weighted(const Tensor& values, const Weights& weights) {
  return times(times(values, weights.sample_weight), weights.mask);
}

Tensor divisor(Reduction reduction, const Tensor& values, const Weights& weights) {
  if (reduction == Reduction::sum) return scalar_like(1.0 / collective::group_size(), values);
  const bool by_weight = reduction == Reduction::mean_with_sample_weight;
  const Tensor counted = by_weight ? times(weights.sample_weight, weights.mask) : weights.mask;
  return counted.defined() ? broadcast_sum(counted, values) : reduce_sum(ones_like(values));
}

Tensor reduced(Reduction reduction, const Tensor& values, const Weights& weights) {
  const Tensor products = weighted(values, weights);
  switch (reduction) {
    case Reduction::none:
      return products;
    case Reduction::sum:
      return share_of_sum(reduce_sum(products));
    case Reduction::sum_over_batch_size:
      if (!weights.mask.defined()) return compute_average_loss(products);
      break;
    case Reduction::mean_with_sample_weight:
      if (!weights.mask.defined() && !weights.sample_weight.defined()) {
        return compute_average_loss(products);
      }
      break;
  }
  const Tensor count = collective::all_reduce({divisor(reduction, values, weights)})[0];
  const Tensor nothing = equal(count, scalar_like(0, count));
  const Tensor mean = reduce_sum(products) / where(nothing, ones_like(count), count);
  return where(nothing, zeros_like(mean), mean);
}

/// The loss of a batch whose function reduces it itself. Sample weights scale it as if each row had
/// this loss.
Tensor reduced_scalar(Reduction reduction, const std::string& name, const Tensor& value,
                      const Tensor& y_pred, const Tensor& sample_weight, const Tensor& mask) {
  const bool adds_up = reduction == Reduction::sum || reduction == Reduction::none;
  const Tensor own = adds_up ? share_of_sum(value) : share_of(value, y_pred);
  if (!sample_weight.defined() && !mask.defined()) return own;
  const Tensor rows = ones_by_row(y_pred, value.dtype());
  const Tensor scale = reduced(reduction, rows, weights_for(name, rows, sample_weight, mask));
  return own * (reduction == Reduction::none ? scale : collective::all_reduce({scale})[0]);
}

Tensor is_other(const Tensor& labels, int64_t ignored) {
  return not_equal(labels, scalar_like(static_cast<double>(ignored), labels));
}

/// Which of labels [..] or [.., 1] are not `ignored`, as [..].
Tensor counted(const Tensor& labels, int64_t ignored) {
  const Tensor counts = is_other(labels, ignored);
  const int last = counts.rank() - 1;
  return last > 0 && counts.shape().extent(last) == 1
             ? reshape(counts, counts.shape().without(last))
             : counts;
}

}  // namespace

struct Loss::Body {
  std::string name;
  PerExample per_example;
  Reduction reduction;
  LossLabels labels;

  /// The examples that both the caller and the loss itself count; undefined for all.
  Tensor mask(const Tensor& given, const Tensor& y_true) const {
    if (!labels.ignored) return given;
    Tensor own = counted(y_true, *labels.ignored);
    if (!given.defined()) return own;
    const Tensor kept =
        given.dtype() == DType::boolean ? given : not_equal(given, scalar_like(0, given));
    return logical_and(own, kept);
  }
};

Loss::Loss(const std::string& name) : Loss(loss_named(name)) {}
Loss::Loss(const char* name) : Loss(std::string(name)) {}

Loss::Loss(std::string name, PerExample per_example, Reduction reduction, const LossLabels& labels)
    : body_(std::make_shared<const Body>(
          Body{std::move(name), std::move(per_example), reduction, labels})) {
  if (body_->per_example == nullptr) {
    throw InvalidArgument(fmt::format("{}: a loss needs a function", body_->name));
  }
}

const std::string& Loss::name() const { return body_->name; }
Reduction Loss::reduction() const { return body_->reduction; }
const LossLabels& Loss::labels() const { return body_->labels; }

Tensor Loss::per_example(const Tensor& y_true, const Tensor& given) const {
  // Only a loss of classes is written for scores of which each replica has some.
  const Tensor y_pred = labels().are_classes ? given : collective::gather_parts(given);
  if (labels().are_classes || !is_floating(y_pred.dtype())) {
    return body_->per_example(y_true, y_pred);
  }
  const Tensor predictions = floating_predictions(name(), y_pred);
  return body_->per_example(as_dtype(y_true, predictions.dtype()), predictions);
}

Tensor Loss::operator()(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight,
                        const Tensor& given_mask) const {
  const Tensor values = per_example(y_true, y_pred);
  const Tensor mask = body_->mask(given_mask, y_true);
  if (values.rank() == 0) {
    return reduced_scalar(reduction(), name(), values, y_pred, sample_weight, mask);
  }
  return reduced(reduction(), values, weights_for(name(), values, sample_weight, mask));
}

LossTerm Loss::terms(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight,
                     const Tensor& given_mask) const {
  if (reduction() == Reduction::none) {
    throw InvalidArgument(
        fmt::format("{}: a loss with Reduction::none has no sum; the others have", name()));
  }
  const Tensor values = per_example(y_true, y_pred);
  const Tensor mask = body_->mask(given_mask, y_true);
  if (values.rank() == 0) {
    const Tensor own = reduced_scalar(reduction(), name(), values, y_pred, sample_weight, mask);
    return {own, scalar_like(1.0 / collective::group_size(), own)};
  }
  const Weights weights = weights_for(name(), values, sample_weight, mask);
  const Tensor sum = reduce_sum(weighted(values, weights));
  return {reduction() == Reduction::sum ? share_of_sum(sum) : sum,
          divisor(reduction(), values, weights)};
}

namespace losses {

namespace {

/// `f` of labels in which class 0 stands for the one that is ignored.
Loss::PerExample without(std::optional<int64_t> ignored, Loss::PerExample f) {
  if (!ignored) return f;
  return [ignored, f = std::move(f)](const Tensor& y_true, const Tensor& y_pred) {
    return f(where(is_other(y_true, *ignored), y_true, zeros_like(y_true)), y_pred);
  };
}

}  // namespace

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const KnownLoss& named : kLosses) names.emplace_back(named.name);
  return names;
}

CategoricalCrossentropy::CategoricalCrossentropy(const CategoricalCrossentropyOptions& options)
    : Loss(options.name,
           categorical_crossentropy(options.name, options.from_logits, options.label_smoothing),
           options.reduction) {}

SparseCategoricalCrossentropy::SparseCategoricalCrossentropy(
    const SparseCategoricalCrossentropyOptions& options)
    : Loss(options.name,
           without(options.ignore_class,
                   sparse_categorical_crossentropy(options.name, options.from_logits)),
           options.reduction, {.are_classes = true, .ignored = options.ignore_class}) {}

BinaryCrossentropy::BinaryCrossentropy(const BinaryCrossentropyOptions& options)
    : Loss(options.name,
           binary_crossentropy(options.name, options.from_logits, options.label_smoothing),
           options.reduction) {}

MeanSquaredError::MeanSquaredError(const MeanSquaredErrorOptions& options)
    : Loss(options.name, mean_squared_error(options.name), options.reduction) {}

MeanAbsoluteError::MeanAbsoluteError(const MeanAbsoluteErrorOptions& options)
    : Loss(options.name, mean_absolute_error(options.name), options.reduction) {}

Huber::Huber(const HuberOptions& options)
    : Loss(options.name, huber(options.name, options.delta), options.reduction) {}

}  // namespace losses
}  // namespace tandem::keras
