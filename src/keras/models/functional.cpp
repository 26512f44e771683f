#include "keras/models/functional.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "keras/models/call_graph.h"
#include "keras/models/described_input.h"
#include "tandem/error.h"

namespace tandem::keras {
namespace {

/// What stands for an input of the model: the layer it was made with, or one for the output of
/// another layer, where the model begins in the middle of a larger one.
Layer input_layer_of(const KerasTensor& input) {
  const DescribedCall& call = *input.made_by();
  if (call.is_input) return Layer(call.layer);
  return Layer(std::make_shared<InputLayerBody>(input.spec(), call.layer->name() + "_output"));
}

/// A described tensor: its call and its place among the call's outputs.
using Key = std::pair<const DescribedCall*, int>;
Key key_of(const KerasTensor& tensor) { return {tensor.made_by().get(), tensor.index()}; }

std::string source_of(const KerasTensor& tensor) {
  const DescribedCall& call = *tensor.made_by();
  return fmt::format("{}[{}][{}]", call.layer->name(), call.number, tensor.index());
}

bool fits(const Shape& shape, const Shape& wanted) {
  return shape.rank() == wanted.rank() &&
         std::ranges::equal(shape.extents().subspan(1), wanted.extents().subspan(1));
}

}  // namespace

FunctionalBody::FunctionalBody(const KerasTensors& inputs, const KerasTensors& outputs,
                               const std::string& name)
    : LayerBody("functional", name) {
  if (inputs.empty() || outputs.empty()) {
    throw InvalidArgument(fmt::format("{}: {} inputs and {} outputs; one or more of each is needed",
                                      this->name(), inputs.size(), outputs.size()));
  }
  const CallGraph graph = call_graph(this->name(), inputs, outputs);
  is_chain_ = graph.is_chain;

  const Trackable operations;
  node().track("_operations", operations);
  std::set<std::string> names;
  for (const std::shared_ptr<LayerBody>& layer : graph.layers) {
    if (!names.insert(layer->name()).second) {
      throw InvalidArgument(
          fmt::format("{}: two layers have the name '{}'", this->name(), layer->name()));
    }
    const size_t place = names.size() - 1;
    operations.track(std::to_string(place), Layer(layer));
    node().track(fmt::format("layer-{}", place), Layer(layer), {.restore_only = true});
    adopt(Layer(layer));
  }

  std::map<Key, size_t> numbers;
  for (const KerasTensor& input : inputs) {
    if (!numbers.emplace(key_of(input), values_++).second) {
      throw InvalidArgument(fmt::format("{}: input {} is given twice", this->name(), values_ - 1));
    }
    inputs_.push_back(input.spec());
    input_layers_.push_back(input_layer_of(input));
  }
  for (const DescribedCall* call : graph.calls) {
    if (call->is_input) continue;
    Call step{.layer = Layer(call->layer),
              .inputs = {},
              .first_output = values_,
              .sources = {},
              .outputs = call->outputs,
              .training = call->training,
              .has_mask = call->has_mask,
              .arguments = call->arguments};
    for (const KerasTensor& input : call->inputs) {
      step.inputs.push_back(numbers.at(key_of(input)));
      step.sources.push_back(source_of(input));
    }
    // An output that is an input of the model at the same time keeps the input's number.
    for (size_t i = 0; i < call->outputs.size(); ++i)
      numbers.emplace(Key{call, static_cast<int>(i)}, values_++);
    calls_.push_back(std::move(step));
  }
  for (const KerasTensor& output : outputs) {
    results_.push_back(numbers.at(key_of(output)));
    const std::string& maker = output.made_by()->layer->name();
    std::string own = maker;
    for (int i = 1; std::ranges::find(output_names_, own) != output_names_.end(); ++i) {
      own = fmt::format("{}_{}", maker, i);
    }
    output_names_.push_back(own);
  }
}

std::optional<TensorSpec> FunctionalBody::input_spec() const {
  if (inputs_.size() != 1) return std::nullopt;
  return inputs_[0];
}

Tensors FunctionalBody::Call::run(Tensors values, const CallContext& context) const {
  if (!training && !has_mask && arguments.empty()) return layer(values, context);
  CallContext own = context;
  if (training) own.training = *training;
  if (has_mask) {
    own.mask = values.back();
    values.pop_back();
  }
  own.arguments = arguments;
  return layer(values, own);
}

Tensors FunctionalBody::call(const Tensors& inputs, const CallContext& context) {
  if (inputs.size() != inputs_.size()) {
    throw InvalidArgument(
        fmt::format("called with {} inputs, it has {}", inputs.size(), inputs_.size()));
  }
  Tensors values(values_);
  for (size_t i = 0; i < inputs.size(); ++i) {
    values[i] = as_described(inputs[i], inputs_[i]);
    if (fits(values[i].shape(), inputs_[i].shape)) continue;
    throw InvalidArgument(fmt::format("input {} is {}, {} is wanted", i, inputs[i].shape().str(),
                                      inputs_[i].shape.str()));
  }
  for (const Call& step : calls_) {
    Tensors arguments;
    for (size_t input : step.inputs) arguments.push_back(values[input]);
    Tensors made = step.run(std::move(arguments), context);
    std::ranges::move(made, values.begin() + static_cast<std::ptrdiff_t>(step.first_output));
  }
  Tensors results;
  for (size_t result : results_) results.push_back(values[result]);
  return results;
}

std::vector<LayerCall> FunctionalBody::calls() const {
  std::vector<LayerCall> all;
  std::vector<LayerCall::Source> sources(values_);  // Where each value comes from.
  for (size_t i = 0; i < inputs_.size(); ++i) {
    sources[i] = {i, 0};
    all.push_back({input_layers_[i], {}, {inputs_[i]}});
  }
  for (const Call& step : calls_) {
    for (size_t i = 0; i < step.outputs.size(); ++i)
      sources[step.first_output + i] = {all.size(), i};
    std::vector<LayerCall::Source> inputs;
    for (size_t value : step.inputs) inputs.push_back(sources[value]);
    all.push_back({step.layer, std::move(inputs), step.outputs, step.training, step.has_mask,
                   step.arguments});
  }
  return all;
}

std::vector<std::string> FunctionalBody::connections(const LayerBody& layer) const {
  std::vector<std::string> all;
  for (const Call& step : calls_) {
    if (step.layer.body().get() != &layer) continue;
    all.insert(all.end(), step.sources.begin(), step.sources.end());
  }
  return all;
}

}  // namespace tandem::keras
