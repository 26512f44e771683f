// The layers Conv2D and DepthwiseConv2D.
#include <fmt/format.h>

#include "keras/layers/arguments.h"
#include "tandem/error.h"
#include "tandem/keras/layers.h"
#include "tandem/ops.h"

namespace tandem::keras::layers {
namespace {

/// Throws for what both kinds of convolution have in common.
template <class Options>
Options checked(const char* layer, const HeightWidth& kernel_size, const Options& options) {
  at_least_one(layer, "kernel_size", kernel_size);
  at_least_one(layer, "strides", options.strides);
  at_least_one(layer, "dilation_rate", options.dilation_rate);
  padding_of(layer, options.padding);
  check_data_format(layer, options.data_format);
  return options;
}

class Conv2DBody final : public FloatingBody {
 public:
  Conv2DBody(int64_t filters, const HeightWidth& kernel_size, Conv2DOptions options)
      : FloatingBody("conv2d", options.name, options.input_shape),
        filters_(filters),
        kernel_size_(kernel_size.sizes()),
        options_(std::move(options)) {}

  void build(const TensorSpecs& inputs) override {
    const TensorSpec& input = only(inputs);
    const int64_t channels = channels_of(input);
    if (channels % options_.groups != 0) {
      throw InvalidArgument(fmt::format("{} channels of the input {} cannot be cut into {} groups",
                                        channels, input.shape.str(), options_.groups));
    }
    kernel_ = add_weight("kernel",
                         {kernel_size_[0], kernel_size_[1], channels / options_.groups, filters_},
                         {.initializer = options_.kernel_initializer,
                          .regularizer = options_.kernel_regularizer,
                          .constraint = options_.kernel_constraint,
                          .dtype = input.dtype,
                          .tracked_name = "_kernel"});
    if (!options_.use_bias) return;
    bias_ = add_weight("bias", {filters_},
                       {.initializer = options_.bias_initializer,
                        .regularizer = options_.bias_regularizer,
                        .constraint = options_.bias_constraint,
                        .dtype = input.dtype});
  }

  Tensors call(const Tensors& inputs, const CallContext&) override {
    Tensor y = conv2d(only(inputs), kernel_.value(),
                      {.strides = options_.strides.sizes(),
                       .padding = padding_of("conv2d", options_.padding),
                       .dilations = options_.dilation_rate.sizes(),
                       .groups = options_.groups});
    if (options_.use_bias) y = y + bias_.value();
    return {options_.activation(y)};
  }

 private:
  int64_t filters_;
  std::array<int64_t, 2> kernel_size_;
  Conv2DOptions options_;
  Variable kernel_, bias_;
};

class DepthwiseConv2DBody final : public FloatingBody {
 public:
  DepthwiseConv2DBody(const HeightWidth& kernel_size, DepthwiseConv2DOptions options)
      : FloatingBody("depthwise_conv2d", options.name, options.input_shape),
        kernel_size_(kernel_size.sizes()),
        options_(std::move(options)) {}

  void build(const TensorSpecs& inputs) override {
    const TensorSpec& input = only(inputs);
    const int64_t channels = channels_of(input);
    kernel_ = add_weight("kernel",
                         {kernel_size_[0], kernel_size_[1], channels, options_.depth_multiplier},
                         {.initializer = options_.depthwise_initializer,
                          .regularizer = options_.depthwise_regularizer,
                          .constraint = options_.depthwise_constraint,
                          .dtype = input.dtype});
    node().track("depthwise_kernel", kernel_, {.restore_only = true});
    if (!options_.use_bias) return;
    bias_ = add_weight("bias", {channels * options_.depth_multiplier},
                       {.initializer = options_.bias_initializer,
                        .regularizer = options_.bias_regularizer,
                        .constraint = options_.bias_constraint,
                        .dtype = input.dtype});
  }

  Tensors call(const Tensors& inputs, const CallContext&) override {
    Tensor y = depthwise_conv2d(only(inputs), kernel_.value(),
                                {.strides = options_.strides.sizes(),
                                 .padding = padding_of("depthwise_conv2d", options_.padding),
                                 .dilations = options_.dilation_rate.sizes()});
    if (options_.use_bias) y = y + bias_.value();
    return {options_.activation(y)};
  }

 private:
  std::array<int64_t, 2> kernel_size_;
  DepthwiseConv2DOptions options_;
  Variable kernel_, bias_;
};

std::shared_ptr<LayerBody> conv2d_body(int64_t filters, const HeightWidth& kernel_size,
                                       const Conv2DOptions& options) {
  at_least_one("conv2d", "filters", filters);
  at_least_one("conv2d", "groups", options.groups);
  if (filters % options.groups != 0) {
    throw InvalidArgument(
        fmt::format("conv2d: {} filters cannot be cut into {} groups", filters, options.groups));
  }
  return std::make_shared<Conv2DBody>(filters, kernel_size,
                                      checked("conv2d", kernel_size, options));
}

std::shared_ptr<LayerBody> depthwise_body(const HeightWidth& kernel_size,
                                          const DepthwiseConv2DOptions& options) {
  at_least_one("depthwise_conv2d", "depth_multiplier", options.depth_multiplier);
  return std::make_shared<DepthwiseConv2DBody>(kernel_size,
                                               checked("depthwise_conv2d", kernel_size, options));
}

}  // namespace

Conv2D::Conv2D(int64_t filters, const HeightWidth& kernel_size, const Conv2DOptions& options)
    : Layer(conv2d_body(filters, kernel_size, options)) {}

DepthwiseConv2D::DepthwiseConv2D(const HeightWidth& kernel_size,
                                 const DepthwiseConv2DOptions& options)
    : Layer(depthwise_body(kernel_size, options)) {}

}  // namespace tandem::keras::layers
