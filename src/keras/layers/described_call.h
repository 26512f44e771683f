/// A call of a layer in a model that is being described.
#pragma once

#include "tandem/keras/layer.h"

namespace tandem::keras {

struct DescribedCall {
  std::shared_ptr<LayerBody> layer;
  KerasTensors inputs;
  TensorSpecs outputs{};
  int number = 0;         ///< Its number among the layer's described calls.
  bool is_input = false;  ///< An input of the model: nothing is called.

  // What the call is told whenever the model runs: see DescribedContext.
  std::optional<bool> training{};
  bool has_mask = false;  ///< The last input is the mask.
  CallArguments arguments{};
};

/// Stands for an input among a model's layers.
class InputLayerBody final : public LayerBody {
 public:
  InputLayerBody(const TensorSpec& spec, const std::string& name);

  std::optional<TensorSpec> input_spec() const override { return spec_; }
  Tensors call(const Tensors& inputs, const CallContext& context) override;

 private:
  TensorSpec spec_;
};

}  // namespace tandem::keras
