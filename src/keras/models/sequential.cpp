#include "keras/models/sequential.h"

#include <fmt/format.h>

#include "keras/models/described_input.h"
#include "tandem/error.h"

namespace tandem::keras {

/// Keras 3 keeps the layers in a functional model of its own.
SequentialBody::SequentialBody(const std::string& name) : LayerBody("sequential", name) {
  const Trackable functional;
  functional.track("_operations", operations_);
  node().track("_functional", functional);
  operations_.track("0", Trackable());
}

void SequentialBody::add(const Layer& layer) {
  if (names_.contains(layer.name())) {
    throw InvalidArgument(fmt::format("{}: two layers have the name '{}'", name(), layer.name()));
  }
  if (const auto input = std::dynamic_pointer_cast<InputLayerBody>(layer.body())) {
    if (!chain_.empty() || is_described()) {
      throw InvalidArgument(
          fmt::format("{}: '{}' is an input, which can only be the first", name(), input->name()));
    }
    input_ = input->input_spec();
    end_ = {Layer::described_input(input)};
    return;
  }
  if (chain_.empty() && !is_described()) {
    if (const std::optional<TensorSpec> spec = layer.body()->input_spec()) {
      const KerasTensors first{Layer::described_input(
          std::make_shared<InputLayerBody>(*spec, fmt::format("{}_input", layer.name())))};
      end_ = layer.all(first);
      input_ = spec;
    }
  } else if (is_described()) {
    end_ = layer.all(end_);
  }
  names_.insert(layer.name());
  operations_.track(std::to_string(chain_.size() + 1), layer);
  node().track(fmt::format("layer-{}", chain_.size()), layer, {.restore_only = true});
  adopt(layer);
  chain_.push_back(layer);
}

void SequentialBody::build(const TensorSpecs& inputs) {
  if (is_described()) return;
  if (inputs.size() != 1) {
    throw InvalidArgument(fmt::format("called with {} inputs, it has one", inputs.size()));
  }
  KerasTensors end{Layer::described_input(
      std::make_shared<InputLayerBody>(inputs[0], fmt::format("{}_input", name())))};
  for (const Layer& layer : chain_) end = layer.all(end);
  input_ = inputs[0];
  end_ = std::move(end);
}

/// What the last layer gives knows the calls that lead to it, one after another.
std::vector<LayerCall> SequentialBody::calls() const {
  std::vector<LayerCall> all;
  std::shared_ptr<const DescribedCall> call = end_.empty() ? nullptr : end_[0].made_by();
  for (; call != nullptr; call = call->inputs.empty() ? nullptr : call->inputs[0].made_by()) {
    all.insert(all.begin(), LayerCall{Layer(call->layer), {}, call->outputs});
  }
  for (size_t i = 1; i < all.size(); ++i) {
    for (size_t output = 0; output < all[i - 1].outputs.size(); ++output) {
      all[i].inputs.push_back({i - 1, output});
    }
  }
  return all;
}

Tensors SequentialBody::call(const Tensors& inputs, const CallContext& context) {
  Tensors values = inputs;
  if (input_ && values.size() == 1) values[0] = as_described(values[0], *input_);
  for (const Layer& layer : chain_) values = layer(values, context);
  return values;
}

}  // namespace tandem::keras
