// What all layers have in common: names, weights that are made by the first call, the types that
// inputs are cast to, calls with tensors and calls that only describe a model. A layer is built
// outside of any trace and tape, whoever calls it first.
#include "tandem/keras/layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>

#include "collective/collective.h"
#include "collective/parts.h"
#include "graph/trace.h"
#include "keras/layers/cut_weights.h"
#include "keras/layers/deferred_updates.h"
#include "keras/layers/described_call.h"
#include "keras/losses/label_shapes.h"
#include "runtime/random_calls.h"
#include "tandem/error.h"
#include "tandem/ops.h"
#include "tensor/late_values.h"
#include "tensor/shared_stores.h"
#include "tensor/unmade_values.h"

namespace tandem::keras {
namespace {

/// "dense", "dense_1", ..: each kind counts for itself, over the life of the process.
std::string next_name(const std::string& kind) {
  static std::mutex mutex;
  static std::map<std::string, int> counts;
  std::lock_guard lock(mutex);
  const int count = counts[kind]++;
  return count == 0 ? kind : fmt::format("{}_{}", kind, count);
}

/// The lock of the thread whose call is the first of a layer: others may come at the same time. A
/// layer builds the layers that it uses.
std::recursive_mutex& first_calls() {
  static std::recursive_mutex mutex;
  return mutex;
}

/// Layers are made for whole values, also where each replica has a part.
TensorSpecs specs_of(const Tensors& tensors) {
  TensorSpecs specs;
  for (const Tensor& tensor : tensors) {
    const Shape shape = collective::whole_shape(tensor);
    specs.push_back({tensor.dtype(), tensor.rank() > 0 ? shape.with(0, -1) : Shape()});
  }
  return specs;
}

}  // namespace

LayerBody::LayerBody(std::string kind, const std::string& name, const InputShape& input_shape)
    : kind_(std::move(kind)),
      name_(name.empty() ? next_name(kind_) : name),
      input_shape_(input_shape) {}
LayerBody::~LayerBody() = default;

void LayerBody::build(const TensorSpecs&) {}

std::optional<TensorSpec> LayerBody::input_spec() const {
  const std::optional<Shape>& shape = input_shape_.shape();
  if (!shape) return std::nullopt;
  return TensorSpec{DType::float32, shape->inserted(0, -1)};
}

/// "max_pooling2d" is "MaxPooling2D".
std::string LayerBody::type_name() const {
  std::string text;
  bool starts = true;
  for (char letter : kind_) {
    if (letter == '_') {
      starts = true;
      continue;
    }
    text += starts ? static_cast<char>(std::toupper(static_cast<unsigned char>(letter))) : letter;
    starts = std::isdigit(static_cast<unsigned char>(letter)) != 0;
  }
  return text;
}

namespace {

/// A weight's first value as it would be made now. What it is depends on the numbers that it draws.
LateValue late_value(const WeightOptions& options, const Shape& shape) {
  const runtime::RandomState then = runtime::random_state();
  const uint64_t seed = then.seed.value_or(then.process_seed);
  const auto make = [initializer = options.initializer, shape, dtype = options.dtype, then] {
    const InitScope outside = init_scope();
    const runtime::RandomState now = runtime::random_state();
    runtime::set_random_state(then);
    Tensor value;
    try {
      value = initializer(shape, dtype);
    } catch (...) {
      runtime::set_random_state(now);
      throw;
    }
    runtime::set_random_state(now);
    return value;
  };
  return {make, static_cast<int64_t>((seed << 20 ^ then.initial_calls) << 1 | 1)};
}

/// The first value of a weight. Where that lies in a file it is computed there, too, or is left
/// unmade. One's own initializer that has done more with an unmade value than to return it is
/// called again, and gets the values.
Tensor first_value(const Initializer& initializer, const Shape& shape, DType dtype) {
  const size_t least = least_bytes_in_files();
  const MappedScope memory(MappedScope::Kind::in_file, least);
  if (least > 0) {
    const runtime::RandomState before = runtime::random_state();
    const UnmadeScope unmade(least);
    Tensor value = initializer(shape, dtype);
    if (UnmadeScope::is_usable(value)) return value;
    runtime::set_random_state(before);
  }
  return initializer(shape, dtype);
}

}  // namespace

Variable LayerBody::add_weight(const std::string& name, const Shape& shape,
                               const WeightOptions& options) {
  const InitScope outside = init_scope();
  const std::string path = fmt::format("{}/{}", name_, name);
  check_cut(kind_, path, shape, options.cut_axes);
  std::optional<LateValueScope> late;
  if (makes_values_late()) late.emplace(late_value(options, shape));
  Variable variable(
      first_value(options.initializer, shape, options.dtype),
      {.name = path, .trainable = options.trainable, .aggregation = options.aggregation});
  const bool renamed = !options.tracked_name.empty();
  if (renamed) node_.track(options.tracked_name, variable);
  node_.track(name, variable, {.restore_only = renamed});
  if (options.constraint) constrain(variable, options.constraint);
  weights_.push_back({variable, options.regularizer});
  return variable;
}

void LayerBody::update_weight(const Variable& weight,
                              const std::function<Tensor(const Tensor& now)>& next) {
  DeferredUpdates::set(weight, next);
}

void LayerBody::adopt(const Layer& layer) { layers_.push_back(layer); }

void LayerBody::ensure_built(const TensorSpecs& inputs) {
  if (built_) return;
  const std::lock_guard lock(first_calls());
  if (built_) return;
  TensorSpecs taken = inputs;
  for (TensorSpec& spec : taken) spec.dtype = accepted(spec.dtype);
  try {
    build(taken);
  } catch (const Error& error) {
    weights_.clear();
    error.rethrow_within(name_);
  }
  built_for_ = inputs;
  built_ = true;
}

void LayerBody::set_outputs(const TensorSpecs& outputs) {
  const std::lock_guard lock(first_calls());
  outputs_ = outputs;
  has_outputs_ = true;
}

DType LayerBody::dtype_for(DType given) const {
  const DType dtype = accepted(given);
  if (!is_floating(dtype)) return dtype;
  const auto own = std::ranges::find_if(
      weights_, [](const Weight& weight) { return is_floating(weight.variable.dtype()); });
  return own == weights_.end() ? dtype : own->variable.dtype();
}

const Tensors& LayerBody::taken(const Tensors& inputs, Tensors& casts) const {
  const auto fits = [this](const Tensor& input) {
    return input.dtype() == dtype_for(input.dtype());
  };
  if (std::ranges::all_of(inputs, fits)) return inputs;
  for (const Tensor& input : inputs) casts.push_back(as_dtype(input, dtype_for(input.dtype())));
  return casts;
}

namespace {

void check_names(const CallArguments& given, const std::vector<std::string>& known) {
  for (const auto& [name, value] : given) {
    if (std::ranges::find(known, name) != known.end()) continue;
    throw InvalidArgument(
        fmt::format("a call is given '{}'; {}", name,
                    known.empty() ? "it takes no arguments by name"
                                  : fmt::format("{} can be given", fmt::join(known, ", "))));
  }
}

}  // namespace

Layer::Layer(std::shared_ptr<LayerBody> body)
    : Trackable(body ? body->node_ : throw InvalidArgument("layer: the body is null")),
      body_(std::move(body)) {}

Tensor Layer::operator()(const Tensor& input, const CallContext& context) const {
  Tensors outputs = (*this)(Tensors{input}, context);
  if (outputs.size() == 1) return std::move(outputs[0]);
  throw InvalidArgument(
      fmt::format("{}: it has {} outputs, call it with a list of inputs", name(), outputs.size()));
}

Tensors Layer::operator()(const Tensors& inputs, const CallContext& context) const {
  if (!built()) body_->ensure_built(specs_of(inputs));
  try {
    if (!context.arguments.empty()) check_names(context.arguments, body_->call_arguments());
    Tensors casts;
    Tensors outputs = body_->call(body_->taken(inputs, casts), context);
    if (!body_->has_outputs_) body_->set_outputs(specs_of(outputs));
    return outputs;
  } catch (const InvalidArgument& error) {
    error.rethrow_within(name());
  }
  return {};
}

KerasTensor Layer::operator()(const KerasTensor& input) const {
  return (*this)(KerasTensors{input}, {});
}

KerasTensor Layer::operator()(const KerasTensors& inputs) const { return (*this)(inputs, {}); }

KerasTensors Layer::all(const KerasTensors& inputs) const { return all(inputs, {}); }

KerasTensor Layer::operator()(const KerasTensor& input, const DescribedContext& context) const {
  return (*this)(KerasTensors{input}, context);
}

KerasTensor Layer::operator()(const KerasTensors& inputs, const DescribedContext& context) const {
  const KerasTensors outputs = all(inputs, context);
  if (outputs.size() == 1) return outputs[0];
  throw InvalidArgument(fmt::format("{}: it has {} outputs, call all()", name(), outputs.size()));
}

/// The outputs' types are those of a trace that is thrown away: a layer says what it computes once.
KerasTensors Layer::all(const KerasTensors& inputs, const DescribedContext& context) const {
  if (inputs.empty()) throw InvalidArgument(fmt::format("{}: called without inputs", name()));
  const InitScope outside = init_scope();  // The first call of a model may be within a trace.
  TensorSpecs specs;
  op::TensorTypes types;
  for (const KerasTensor& input : inputs) {
    specs.push_back(input.spec());
    types.push_back(type_of(input));
  }
  body_->ensure_built(specs);
  KerasTensors taken = inputs;
  if (context.mask) {
    taken.push_back(*context.mask);
    types.push_back(type_of(*context.mask));
  }
  const auto called = [&](Tensors symbolic) {
    CallContext own{.training = context.training.value_or(false), .arguments = context.arguments};
    if (context.mask) {
      own.mask = symbolic.back();
      symbolic.pop_back();
    }
    return (*this)(symbolic, own);
  };
  const graph::Graph graph = graph::Trace::of(called, types);
  TensorSpecs made;
  for (graph::ValueId result : graph.results) {
    const op::TensorType& type = graph.at(result).type;
    made.push_back({type.dtype, type.shape});
  }
  body_->set_outputs(made);
  const auto call =
      std::make_shared<DescribedCall>(DescribedCall{.layer = body_,
                                                    .inputs = taken,
                                                    .outputs = made,
                                                    .number = body_->described_calls_++,
                                                    .training = context.training,
                                                    .has_mask = context.mask.has_value(),
                                                    .arguments = context.arguments});
  KerasTensors outputs;
  for (size_t i = 0; i < made.size(); ++i) {
    outputs.emplace_back(made[i], call, static_cast<int>(i));
  }
  return outputs;
}

void Layer::build(const TensorSpecs& inputs) const {
  if (built() && inputs != body_->built_for_) {
    throw FailedPrecondition(
        fmt::format("{}: its weights are made already, for other inputs", name()));
  }
  body_->ensure_built(inputs);
}

void Layer::set_trainable(bool trainable) const {
  body_->trainable_ = trainable;
  for (const Layer& layer : body_->layers_) layer.set_trainable(trainable);
}

template <class Visit>
void Layer::for_each_weight(bool trainable, const Visit& visit) const {
  const bool own = trainable && body_->trainable_;
  for (const LayerBody::Weight& weight : body_->weights_) {
    visit(weight, own && weight.variable.trainable());
  }
  for (const Layer& layer : body_->layers_) layer.for_each_weight(own, visit);
}

namespace {
void add_once(Variables& list, const Variable& variable) {
  const auto same = [&](const Variable& known) { return known.body() == variable.body(); };
  if (std::ranges::none_of(list, same)) list.push_back(variable);
}
}  // namespace

Variables Layer::weights() const {
  Variables all;
  for_each_weight(true, [&](const auto& weight, bool) { add_once(all, weight.variable); });
  return all;
}

Variables Layer::trainable_weights() const {
  Variables all;
  for_each_weight(true, [&](const auto& weight, bool trainable) {
    if (trainable) add_once(all, weight.variable);
  });
  return all;
}

Variables Layer::non_trainable_weights() const {
  Variables all;
  for_each_weight(true, [&](const auto& weight, bool trainable) {
    if (!trainable) add_once(all, weight.variable);
  });
  return all;
}

int64_t Layer::count_params() const {
  if (!built()) {
    throw FailedPrecondition(fmt::format(
        "{}: its weights are made when it is first called; call it or build() it before counting",
        name()));
  }
  int64_t count = 0;
  for (const Variable& weight : weights()) count += weight.shape().count();
  return count;
}

Tensors Layer::get_weights() const {
  Tensors values;
  for (const Variable& weight : weights()) values.push_back(weight.value());
  return values;
}

void Layer::set_weights(const Tensors& values) const {
  const Variables all = weights();
  if (all.size() != values.size()) {
    throw InvalidArgument(fmt::format("{}: set_weights with {} tensors, it has {} weights", name(),
                                      values.size(), all.size()));
  }
  for (size_t i = 0; i < all.size(); ++i) {
    if (type_of(all[i]) == type_of(values[i])) continue;
    throw InvalidArgument(fmt::format("{}: set_weights of '{}', {}, with {}", name(), all[i].name(),
                                      type_of(all[i]).str(), type_of(values[i]).str()));
  }
  for (size_t i = 0; i < all.size(); ++i) all[i].assign(values[i]);
}

std::vector<Layer> Layer::layers() const { return body_->layers_; }

Tensor Layer::regularization_loss() const {
  Tensor sum;
  std::vector<const VariableBody*> seen;
  for_each_weight(true, [&](const auto& weight, bool) {
    const VariableBody* body = weight.variable.body().get();
    if (!weight.regularizer || std::ranges::find(seen, body) != seen.end()) return;
    seen.push_back(body);
    const Tensor penalty = weight.regularizer(weight.variable.value());
    sum = sum.defined() ? sum + penalty : penalty;
  });
  const int replicas = collective::group_size();
  return sum.defined() && replicas > 1 ? sum * (1.0 / replicas) : sum;
}

InputLayerBody::InputLayerBody(const TensorSpec& spec, const std::string& name)
    : LayerBody("input_layer", name), spec_(spec) {}

Tensors InputLayerBody::call(const Tensors& inputs, const CallContext&) { return inputs; }

KerasTensor Layer::described_input(const std::shared_ptr<InputLayerBody>& body) {
  body->set_outputs({*body->input_spec()});
  body->ensure_built(body->outputs_);
  const auto call =
      std::make_shared<DescribedCall>(DescribedCall{.layer = body,
                                                    .inputs = {},
                                                    .outputs = body->outputs_,
                                                    .number = body->described_calls_++,
                                                    .is_input = true});
  return {body->outputs_[0], call, 0};
}

KerasTensor Input(const Shape& shape, DType dtype, const std::string& name) {
  return Layer::described_input(
      std::make_shared<InputLayerBody>(TensorSpec{dtype, shape.inserted(0, -1)}, name));
}

}  // namespace tandem::keras
