// Trains a model on one device and under other strategies and compares gradients, losses and
// weights. The order of sums differs, so they are compared within a tolerance, and gradients that
// are nothing but rounding are left out.
#include "tandem/checks/equivalence.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>

#include "checkpoint/process_files.h"
#include "collective/collective.h"
#include "op/apply.h"
#include "ops/variable_parts.h"
#include "tandem/error.h"
#include "tandem/gradient_tape.h"
#include "tandem/ops.h"
#include "tensor/shared_stores.h"

namespace tandem::checks {
namespace {

using distribute::PerReplicas;
using distribute::ReduceOp;
using distribute::Strategy;
using keras::CompileOptions;
using keras::Model;

constexpr uint64_t kWeightSeed = 7;
constexpr uint64_t kTrainingSeed = 8;

/// All that is compared, by name.
using Numbers = std::map<std::string, std::vector<double>>;

std::vector<double> doubles(const Tensor& tensor) {
  return cast(tensor, DType::float64).to_vector<double>();
}

Tensors first_rows(const Tensors& tensors, int64_t rows) {
  Tensors part;
  for (const Tensor& tensor : tensors) {
    part.push_back(tensor.rows(0, std::min<int64_t>(rows, tensor.shape()[0])));
  }
  return part;
}

/// A replica's term of a gradient, so that the sum over all replicas is the gradient. Of variables
/// that are cut replicas have parts.
Tensor term_of(const Tensor& gradient, const Variable& variable) {
  const VariableCut& cut = variable.body()->cut;
  if (cut.is_whole() || !op::interpreter().is_replica()) return gradient;
  const Tensor part = collective::sum_over_holders({gradient}, cut.parts)[0];
  return ops::join_parts(part, variable) * (1.0 / collective::group_size());
}

/// The gradients of the summed loss on a batch, over all replicas.
Tensors gradients(const TrainingCase& training, const Strategy& strategy, const Model& model,
                  const CompileOptions& options) {
  const size_t inputs = training.x.size();
  const size_t outputs = training.y.size();
  const FlatFunction f([&](const Tensors& batch) {
    GradientTape tape;
    const Tensors x(batch.begin(), batch.begin() + static_cast<ptrdiff_t>(inputs));
    const Tensor weight = batch.size() > inputs + outputs ? batch.back() : Tensor();
    const Tensors predictions = model(x, {.training = true});
    Tensor loss = model.regularization_loss();
    for (size_t i = 0; i < outputs; ++i) {
      Tensor own = options.loss[i](batch[inputs + i], predictions[i], weight);
      if (!options.loss_weights.empty()) own = own * options.loss_weights[i];
      loss = loss.defined() ? loss + own : own;
    }
    const Variables weights = model.trainable_weights();
    Tensors terms = tape.gradient(loss, weights);
    for (size_t i = 0; i < terms.size(); ++i) terms[i] = term_of(terms[i], weights[i]);
    return terms;
  });
  Tensors batch = training.x;
  batch.insert(batch.end(), training.y.begin(), training.y.end());
  if (training.sample_weight.defined()) batch.push_back(training.sample_weight);
  Tensors sums;
  for (const auto& gradient :
       strategy.run_flat(f, strategy.split(first_rows(batch, training.batch_size)))) {
    sums.push_back(strategy.reduce(ReduceOp::sum, gradient));
  }
  return sums;
}

double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

/// Which gradients are nothing but rounding: what Adam makes of them says nothing.
std::vector<bool> are_zero(const Tensors& gradients) {
  constexpr double kRounding = 1e-12;
  std::vector<double> sizes;
  sizes.reserve(gradients.size());
  for (const Tensor& gradient : gradients) sizes.push_back(largest_of(doubles(gradient)));
  std::vector<bool> zero;
  zero.reserve(sizes.size());
  for (double size : sizes) zero.push_back(size < kRounding * largest_of(sizes));
  return zero;
}

/// The value of a weight, parts of which other processes may have.
Tensor value_of(const Variable& weight) {
  if (has_all_parts(*weight.body())) return weight.value();
  const std::vector<char> all = checkpoint::gathered_value(*checkpoint::processes(), weight);
  return Tensor::copy_of(all.data(), weight.dtype(), weight.shape());
}

/// `elsewhere` gets the names of what other processes alone have.
Numbers trained(const TrainingCase& training, const Strategy& strategy,
                std::set<std::string>& elsewhere) {
  const auto scope = strategy.scope();
  random::set_seed(kWeightSeed);
  const Model model = training.model();
  const CompileOptions options = training.compile();
  model.compile(options);
  model.predict(first_rows(training.x, training.batch_size));  // Makes the weights.

  Numbers numbers;
  random::set_seed(kTrainingSeed);
  const Tensors first = gradients(training, strategy, model, options);
  const std::vector<bool> zero = are_zero(first);
  std::set<const VariableBody*> undetermined;
  for (size_t i = 0; i < first.size(); ++i) {
    numbers[fmt::format("gradient {}", i)] = zero[i] ? std::vector<double>{} : doubles(first[i]);
    if (zero[i]) undetermined.insert(model.trainable_weights()[i].body().get());
  }

  random::set_seed(kTrainingSeed);
  keras::callbacks::LambdaCallback each({.on_batch_end = [&](keras::TrainingRun& run, int64_t) {
    for (const auto& [name, value] : run.logs()) numbers[name + " by step"].push_back(value);
  }});
  const keras::History history = model.fit(training.x, training.y,
                                           {.batch_size = training.batch_size,
                                            .epochs = training.epochs,
                                            .verbose = keras::Verbose::silent,
                                            .callbacks = {each},
                                            .sample_weight = training.sample_weight});
  for (const auto& [name, values] : history.history) numbers[name + " by epoch"] = values;
  numbers["samples seen"] = {static_cast<double>(history.samples_seen)};
  const keras::Logs logs = model.evaluate(training.x, training.y,
                                          {.batch_size = training.batch_size,
                                           .verbose = keras::Verbose::silent,
                                           .sample_weight = training.sample_weight});
  for (const auto& [name, value] : logs) numbers[name + " of evaluate"] = {value};
  const Tensors predictions = model.predict(training.x, {.batch_size = training.batch_size});
  for (size_t i = 0; i < predictions.size(); ++i) {
    numbers[fmt::format("output {} of predict", i)] = doubles(predictions[i]);
  }
  // What other processes keep is compared by the one that writes checkpoints.
  const Variables weights = model.weights();
  const checkpoint::GatheredParts gathered(weights);
  for (size_t i = 0; i < weights.size(); ++i) {
    if (undetermined.contains(weights[i].body().get())) continue;
    // The parts of one that is cut all processes bring together.
    const bool is_cut = !has_all_parts(*weights[i].body());
    if (!is_cut && is_kept_elsewhere(weights[i].body()->range)) {
      elsewhere.insert(fmt::format("weight {}", i));
      continue;
    }
    numbers[fmt::format("weight {}", i)] = doubles(value_of(weights[i]));
  }
  return numbers;
}

/// The largest difference, of the largest element.
double difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return INFINITY;
  double largest = 0;
  double apart = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) || std::isnan(b[i])) return INFINITY;
    largest = std::max(largest, std::abs(a[i]));
    apart = std::max(apart, std::abs(a[i] - b[i]));
  }
  return apart == 0 ? 0 : apart / std::max(largest, 1e-300);
}

std::string title(const Strategy& strategy) {
  std::string text = strategy.name();
  for (const std::string& device : strategy.devices()) text += fmt::format(" {}", device);
  return text;
}

void compare(const Numbers& one, const Numbers& other, const std::set<std::string>& elsewhere,
             double tolerance, const std::string& who, Equivalence& result) {
  for (const auto& [name, values] : one) {
    if (elsewhere.contains(name)) continue;
    const auto found = other.find(name);
    const double apart = found == other.end() ? INFINITY : difference(values, found->second);
    result.largest = std::max(result.largest, apart);
    if (apart <= tolerance) continue;
    result.same = false;
    result.text +=
        fmt::format("{}: {} differs by {:.3g} of its largest element\n", who, name, apart);
  }
}

}  // namespace

Equivalence check_equivalence(const TrainingCase& training,
                              const std::vector<Strategy>& strategies) {
  if (!training.model || !training.compile || training.x.empty() || training.y.empty()) {
    throw InvalidArgument("check_equivalence: model, compile, x and y are needed");
  }
  if (distribute::has_strategy()) {
    throw FailedPrecondition("check_equivalence: called in the scope of a strategy");
  }
  std::set<std::string> elsewhere;
  const Numbers alone = trained(training, distribute::get_strategy(), elsewhere);
  Equivalence result;
  for (const Strategy& strategy : strategies) {
    elsewhere.clear();
    const Numbers other = trained(training, strategy, elsewhere);
    compare(alone, other, elsewhere, training.tolerance, title(strategy), result);
  }
  return result;
}

}  // namespace tandem::checks
