#include "tandem/keras/model.h"

#include <fmt/format.h>

#include "keras/model_state.h"
#include "keras/models/functional.h"
#include "keras/models/sequential.h"
#include "tandem/error.h"

namespace tandem::keras {

Model::Model(std::shared_ptr<LayerBody> body)
    : Layer(std::move(body)), state_(std::make_shared<State>()) {}

Model::Model(const KerasTensors& inputs, const KerasTensors& outputs, const std::string& name)
    : Model(std::make_shared<FunctionalBody>(inputs, outputs, name)) {
  build(static_cast<const FunctionalBody&>(*body()).input_specs());
  state_->inputs = inputs.size();
}

Layer Model::get_layer(size_t index) const {
  const std::vector<Layer> all = layers();
  if (index < all.size()) return all[index];
  throw NotFound(fmt::format("{}: layer {} of {}", name(), index, all.size()));
}

Layer Model::get_layer(const std::string& wanted) const {
  std::string known;
  for (const Layer& layer : layers()) {
    if (layer.name() == wanted) return layer;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", layer.name());
  }
  throw NotFound(fmt::format("{}: no layer '{}'; there are {}", name(), wanted, known));
}

Sequential::Sequential(const std::vector<Layer>& layers, const std::string& name)
    : Model(std::make_shared<SequentialBody>(name)) {
  for (const Layer& layer : layers) add(layer);
}

void Sequential::add(const Layer& layer) const {
  auto& chain = static_cast<SequentialBody&>(*body());
  chain.add(layer);
  if (chain.is_described()) build({*chain.input_spec()});
}

}  // namespace tandem::keras
