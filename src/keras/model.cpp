#include "tandem/keras/model.h"

#include <fmt/format.h>

#include "tandem/error.h"

namespace tandem::keras {

struct Model::State {};

Model::Model(std::shared_ptr<LayerBody> body)
    : Layer(std::move(body)), state_(std::make_shared<State>()) {}

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

}  // namespace tandem::keras
