/// A model described by calling layers: its calls in an order in which each has its inputs.
#pragma once

#include "keras/layers/described_call.h"
#include "tandem/keras/model.h"

namespace tandem::keras {

class FunctionalBody final : public LayerBody {
 public:
  /// Throws InvalidArgument when an output depends on an input that is not listed, two layers have
  /// the same name, or a list is empty or has an input twice.
  FunctionalBody(const KerasTensors& inputs, const KerasTensors& outputs, const std::string& name);

  std::optional<TensorSpec> input_spec() const override;
  Tensors call(const Tensors& inputs, const CallContext& context) override;

  const TensorSpecs& input_specs() const { return inputs_; }

  /// The layers that give the outputs, by name; a number tells those of one layer apart.
  std::vector<std::string> output_names() const { return output_names_; }

  /// No call has several inputs, no two stand side by side, no layer is called twice.
  bool is_chain() const { return is_chain_; }
  /// What the layer's calls within this model take: "dense[0][0]", ..
  std::vector<std::string> connections(const LayerBody& layer) const;

  /// As Model::calls().
  std::vector<LayerCall> calls() const;

 private:
  /// Values are numbered: the model's inputs, then the outputs of each call.
  struct Call {
    Layer layer;
    std::vector<size_t> inputs;
    size_t first_output;
    std::vector<std::string> sources;  // The names of the inputs, as summary() prints them.
    TensorSpecs outputs;
    std::optional<bool> training;  // As in DescribedCall.
    bool has_mask;
    CallArguments arguments;

    Tensors run(Tensors values, const CallContext& context) const;
  };

  TensorSpecs inputs_;
  std::vector<Layer> input_layers_;
  std::vector<Call> calls_;
  std::vector<size_t> results_;
  std::vector<std::string> output_names_;
  size_t values_ = 0;
  bool is_chain_ = true;
};

}  // namespace tandem::keras
