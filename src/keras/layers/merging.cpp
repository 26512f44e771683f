// The layers that make one tensor of several: Add, Multiply and Concatenate.
#include <fmt/format.h>

#include "keras/layers/arguments.h"
#include "tandem/error.h"
#include "tandem/keras/layers.h"
#include "tandem/ops.h"

namespace tandem::keras::layers {
namespace {

class MergingBody final : public LayerBody {
 public:
  using Merge = Tensor (*)(const Tensor&, const Tensor&);
  MergingBody(const char* kind, Merge merge, const NameOptions& options)
      : LayerBody(kind, options.name, options.input_shape), merge_(merge) {}

  Tensors call(const Tensors& inputs, const CallContext&) override {
    if (inputs.empty()) throw InvalidArgument("called without inputs");
    Tensor merged = inputs[0];
    for (size_t i = 1; i < inputs.size(); ++i) merged = merge_(merged, inputs[i]);
    return {merged};
  }

 private:
  Merge merge_;
};

class ConcatenateBody final : public LayerBody {
 public:
  explicit ConcatenateBody(const ConcatenateOptions& options)
      : LayerBody("concatenate", options.name), axis_(options.axis) {
    if (axis_ == 0)
      throw InvalidArgument(
          "concatenate: axis is 0, the batch; 1 or more, or a "
          "negative one, is needed");
  }

  Tensors call(const Tensors& inputs, const CallContext&) override {
    return {concat(inputs, axis_)};
  }

 private:
  int axis_;
};

}  // namespace

Add::Add(const NameOptions& options)
    : Layer(std::make_shared<MergingBody>("add", tandem::add, options)) {}

Multiply::Multiply(const NameOptions& options)
    : Layer(std::make_shared<MergingBody>("multiply", tandem::mul, options)) {}

Concatenate::Concatenate(const ConcatenateOptions& options)
    : Layer(std::make_shared<ConcatenateBody>(options)) {}

}  // namespace tandem::keras::layers
