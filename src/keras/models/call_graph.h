/// The calls between the inputs and outputs of a model that was described.
#pragma once

#include <vector>

#include "keras/layers/described_call.h"

namespace tandem::keras {

struct CallGraph {
  std::vector<const DescribedCall*> calls;         ///< Each after those that it depends on.
  std::vector<std::shared_ptr<LayerBody>> layers;  ///< Each once, in Keras's order.
  bool is_chain = true;  ///< One call after another, each of another layer with one input.
};

/// Walks from the outputs back. Keras orders layers by their distance from the outputs, the
/// farthest first, then as the walk meets them. Throws InvalidArgument for an output that needs
/// an input which is not listed; `model` names the model there.
CallGraph call_graph(const std::string& model, const KerasTensors& inputs,
                     const KerasTensors& outputs);

}  // namespace tandem::keras
