// The layers Dense, Activation, Dropout, Rescaling, Lambda and InputLayer.
#include <fmt/format.h>

#include "collective/parts.h"
#include "keras/layers/arguments.h"
#include "keras/layers/cut_weights.h"
#include "keras/layers/described_call.h"
#include "tandem/error.h"
#include "tandem/keras/layers.h"
#include "tandem/ops.h"

namespace tandem::keras::layers {
namespace {

class DenseBody final : public FloatingBody {
 public:
  DenseBody(int64_t units, DenseOptions options)
      : FloatingBody("dense", options.name, options.input_shape),
        units_(units),
        options_(std::move(options)) {}

  void build(const TensorSpecs& inputs) override {
    const TensorSpec& input = only(inputs);
    const int64_t width = width_of(input, 2);
    kernel_ = add_weight("kernel", {width, units_},
                         {.initializer = options_.kernel_initializer,
                          .regularizer = options_.kernel_regularizer,
                          .constraint = options_.kernel_constraint,
                          .dtype = input.dtype,
                          .tracked_name = "_kernel",
                          .cut_axes = 2});
    if (!options_.use_bias) return;
    bias_ = add_weight("bias", {units_},
                       {.initializer = options_.bias_initializer,
                        .regularizer = options_.bias_regularizer,
                        .constraint = options_.bias_constraint,
                        .dtype = input.dtype,
                        .cut_axes = 1});
  }

  Tensors call(const Tensors& inputs, const CallContext&) override {
    const WeightCut cut = cut_of(kernel_);
    if (cut.axis == 0) return {by_rows(only(inputs), cut)};
    const Tensor x = collective::gather_parts(only(inputs));
    Tensor y = matmul(x, part_of(kernel_, cut));
    if (options_.use_bias) y = y + part_of(bias_, cut.along(0));
    if (cut.is_whole()) return {options_.activation(y)};
    return {options_.activation(collective::marked_part(y, y.rank() - 1))};
  }

 private:
  /// Each replica has some rows of the kernel, for its part of the input's last axis.
  Tensor by_rows(const Tensor& x, const WeightCut& cut) const {
    const Tensor own = collective::cut_axis(x) < 0 ? collective::own_part(x, x.rank() - 1) : x;
    Tensor y = matmul_of_parts(own, part_of(kernel_, cut));
    if (options_.use_bias) y = y + bias_.value();
    return options_.activation(y);
  }

  int64_t units_;
  DenseOptions options_;
  Variable kernel_, bias_;
};

class ActivationBody final : public FloatingBody {
 public:
  ActivationBody(keras::Activation activation, const NameOptions& options)
      : FloatingBody("activation", options.name, options.input_shape),
        activation_(std::move(activation)) {}

  Tensors call(const Tensors& inputs, const CallContext&) override {
    return {activation_(only(inputs))};
  }

 private:
  keras::Activation activation_;
};

class DropoutBody final : public FloatingBody {
 public:
  DropoutBody(double rate, const DropoutOptions& options)
      : FloatingBody("dropout", options.name, options.input_shape),
        rate_(rate),
        seed_(options.seed) {}

  Tensors call(const Tensors& inputs, const CallContext& context) override {
    const Tensor& x = only(inputs);
    if (!context.training || rate_ == 0) return {x};
    return {dropout_of_parts(x, rate_, {.seed = seed_})};
  }

 private:
  double rate_;
  std::optional<uint64_t> seed_;
};

class RescalingBody final : public LayerBody {
 public:
  RescalingBody(double scale, double offset, const NameOptions& options)
      : LayerBody("rescaling", options.name, options.input_shape), scale_(scale), offset_(offset) {}

  Tensors call(const Tensors& inputs, const CallContext&) override {
    const Tensor& x = only(inputs);
    const Tensor y = (x.dtype() == DType::float64 ? x : cast(x, DType::float32)) * scale_;
    return {offset_ == 0 ? y : y + offset_};
  }

 private:
  double scale_, offset_;
};

class LambdaBody final : public LayerBody {
 public:
  using Function = std::function<Tensors(const Tensors&)>;
  LambdaBody(Function function, const NameOptions& options)
      : LayerBody("lambda", options.name, options.input_shape), function_(std::move(function)) {}

  Tensors call(const Tensors& inputs, const CallContext&) override { return function_(inputs); }

 private:
  Function function_;
};

template <class Function>
Function callable(Function function) {
  if (function) return function;
  throw InvalidArgument("lambda: the function is empty");
}

}  // namespace

InputLayer::InputLayer(const Shape& shape, const InputLayerOptions& options)
    : Layer(std::make_shared<InputLayerBody>(TensorSpec{options.dtype, shape.inserted(0, -1)},
                                             options.name)) {}

Dense::Dense(int64_t units, const DenseOptions& options)
    : Layer((at_least_one("dense", "units", units), std::make_shared<DenseBody>(units, options))) {}

Activation::Activation(const keras::Activation& activation, const NameOptions& options)
    : Layer(std::make_shared<ActivationBody>(activation, options)) {}

Dropout::Dropout(double rate, const DropoutOptions& options)
    : Layer((check_rate("dropout", "rate", rate), std::make_shared<DropoutBody>(rate, options))) {}

Rescaling::Rescaling(double scale, double offset, const NameOptions& options)
    : Layer(std::make_shared<RescalingBody>(scale, offset, options)) {}

Lambda::Lambda(std::function<Tensor(const Tensor&)> function, const NameOptions& options)
    : Lambda([one = callable(std::move(function))](
                 const Tensors& inputs) { return Tensors{one(only(inputs))}; },
             options) {}

Lambda::Lambda(std::function<Tensors(const Tensors&)> function, const NameOptions& options)
    : Layer(std::make_shared<LambdaBody>(callable(std::move(function)), options)) {}

}  // namespace tandem::keras::layers
