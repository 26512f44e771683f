/// Layers one after another.
#pragma once

#include <set>

#include "keras/layers/described_call.h"
#include "tandem/keras/model.h"

namespace tandem::keras {

class SequentialBody final : public LayerBody {
 public:
  explicit SequentialBody(const std::string& name);

  /// Where the input's type is known, from the first layer or because the weights of the others are
  /// made already, the layer's weights are made now.
  void add(const Layer& layer);

  /// The type of its input is known: its layers have their weights.
  bool is_described() const { return input_.has_value(); }

  std::optional<TensorSpec> input_spec() const override { return input_; }
  void build(const TensorSpecs& inputs) override;
  Tensors call(const Tensors& inputs, const CallContext& context) override;

  /// As Model::calls().
  std::vector<LayerCall> calls() const;

 private:
  Trackable operations_;  // The list in checkpoints: an input, then the layers.
  std::vector<Layer> chain_;
  std::set<std::string> names_;
  std::optional<TensorSpec> input_;
  KerasTensors end_;  // What the last layer gives, once the input is known.
};

}  // namespace tandem::keras
