/// A call of a layer in a model that is being described.
#pragma once

#include "tandem/keras/layer.h"

namespace tandem::keras {

struct DescribedCall {
  std::shared_ptr<LayerBody> layer;  ///< Null for an input of the model.
  KerasTensors inputs;
  TensorSpecs outputs;
};

}  // namespace tandem::keras
