// The layers that pool windows of an image, or all of it, by their maximum or their mean.
#include "keras/layers/arguments.h"
#include "tandem/keras/layers.h"
#include "tandem/ops.h"

namespace tandem::keras::layers {
namespace {

class PoolingBody final : public FloatingBody {
 public:
  using Pool = Tensor (*)(const Tensor&, const Pool2dOptions&);
  PoolingBody(const char* kind, Pool pool, const HeightWidth& pool_size,
              const Pooling2DOptions& options)
      : FloatingBody(kind, options.name, options.input_shape),
        pool_(pool),
        options_{.window = at_least_one(kind, "pool_size", pool_size),
                 .padding = padding_of(kind, options.padding)} {
    if (options.strides.given()) options_.strides = at_least_one(kind, "strides", options.strides);
    check_data_format(kind, options.data_format);
  }

  Tensors call(const Tensors& inputs, const CallContext&) override {
    return {pool_(only(inputs), options_)};
  }

 private:
  Pool pool_;
  Pool2dOptions options_;
};

class GlobalPoolingBody final : public FloatingBody {
 public:
  using Reduce = Tensor (*)(const Tensor&, const ReduceOptions&);
  GlobalPoolingBody(const char* kind, Reduce reduce, const GlobalPooling2DOptions& options)
      : FloatingBody(kind, options.name, options.input_shape),
        reduce_(reduce),
        keepdims_(options.keepdims) {
    check_data_format(kind, options.data_format);
  }

  Tensors call(const Tensors& inputs, const CallContext&) override {
    const Tensor& x = only(inputs);
    check_images(x);
    return {reduce_(x, {.axes = {{1, 2}}, .keepdims = keepdims_})};
  }

 private:
  Reduce reduce_;
  bool keepdims_;
};

}  // namespace

MaxPooling2D::MaxPooling2D(const HeightWidth& pool_size, const Pooling2DOptions& options)
    : Layer(std::make_shared<PoolingBody>("max_pooling2d", max_pool2d, pool_size, options)) {}

AveragePooling2D::AveragePooling2D(const HeightWidth& pool_size, const Pooling2DOptions& options)
    : Layer(std::make_shared<PoolingBody>("average_pooling2d", avg_pool2d, pool_size, options)) {}

GlobalAveragePooling2D::GlobalAveragePooling2D(const GlobalPooling2DOptions& options)
    : Layer(std::make_shared<GlobalPoolingBody>("global_average_pooling2d", reduce_mean, options)) {
}

GlobalMaxPooling2D::GlobalMaxPooling2D(const GlobalPooling2DOptions& options)
    : Layer(std::make_shared<GlobalPoolingBody>("global_max_pooling2d", reduce_max, options)) {}

}  // namespace tandem::keras::layers
