// The layers that move elements and compute nothing: Flatten, Reshape and ZeroPadding2D.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "keras/layers/arguments.h"
#include "tandem/error.h"
#include "tandem/keras/layers.h"
#include "tandem/ops.h"

namespace tandem::keras::layers {
namespace {

/// The number of elements of one example.
int64_t example_count(const Tensor& x) {
  if (x.rank() == 0) throw InvalidArgument("the input is a scalar, a batch is needed");
  return x.shape().without(0).total_extent();
}

class FlattenBody final : public LayerBody {
 public:
  explicit FlattenBody(const NameOptions& options)
      : LayerBody("flatten", options.name, options.input_shape) {}

  Tensors call(const Tensors& inputs, const CallContext&) override {
    const Tensor& x = only(inputs);
    return {reshape(x, {x.shape()[0], example_count(x)})};
  }
};

using Sizes = std::vector<int64_t>;

class ReshapeBody final : public LayerBody {
 public:
  ReshapeBody(Sizes target, const NameOptions& options)
      : LayerBody("reshape", options.name, options.input_shape), target_(std::move(target)) {}

  Tensors call(const Tensors& inputs, const CallContext&) override {
    const Tensor& x = only(inputs);
    return {reshape(x, shape_of_example(x).inserted(0, x.shape()[0]))};
  }

 private:
  /// The target with -1 replaced by what the other sizes leave.
  Shape shape_of_example(const Tensor& x) const {
    const int64_t count = example_count(x);
    Sizes sizes = target_;
    const auto open = std::ranges::find(sizes, -1);
    if (open != sizes.end()) {
      *open = 1;
      const int64_t others = Shape(std::span<const int64_t>(sizes)).total_extent();
      *open = others == 0 ? 0 : count / others;
    }
    const Shape shape{std::span<const int64_t>(sizes)};
    if (shape.total_extent() == count) return shape;
    throw InvalidArgument(
        fmt::format("target_shape [{}] has not the {} elements of an example of {}",
                    fmt::join(target_, ","), count, x.shape().str()));
  }

  Sizes target_;
};

const Sizes& checked(const Sizes& target) {
  const auto wrong = [](int64_t size) { return size < -1; };
  if (std::ranges::count(target, -1) > 1 || std::ranges::any_of(target, wrong)) {
    throw InvalidArgument(fmt::format(
        "reshape: target_shape is [{}], sizes from 0 on and at most one -1 are accepted",
        fmt::join(target, ",")));
  }
  return target;
}

class ZeroPaddingBody final : public LayerBody {
 public:
  using BeforeAfter = ZeroPadding2D::BeforeAfter;
  ZeroPaddingBody(const BeforeAfter& height, const BeforeAfter& width, const NameOptions& options)
      : LayerBody("zero_padding2d", options.name, options.input_shape),
        paddings_{{0, 0}, height, width, {0, 0}} {}

  Tensors call(const Tensors& inputs, const CallContext&) override {
    const Tensor& x = only(inputs);
    check_images(x);
    return {pad(x, paddings_)};
  }

 private:
  std::vector<BeforeAfter> paddings_;
};

std::shared_ptr<LayerBody> padding_body(const ZeroPadding2D::BeforeAfter& height,
                                        const ZeroPadding2D::BeforeAfter& width,
                                        const NameOptions& options) {
  for (int64_t size : {height.first, height.second, width.first, width.second}) {
    if (size >= 0) continue;
    throw InvalidArgument(fmt::format("zero_padding2d: padding is {}, at least 0 is needed", size));
  }
  return std::make_shared<ZeroPaddingBody>(height, width, options);
}

std::shared_ptr<LayerBody> padding_body(const HeightWidth& padding, const NameOptions& options) {
  if (!padding.given()) throw InvalidArgument("zero_padding2d: padding is left out");
  const auto [height, width] = padding.sizes();
  return padding_body({height, height}, {width, width}, options);
}

}  // namespace

Flatten::Flatten(const NameOptions& options) : Layer(std::make_shared<FlattenBody>(options)) {}

Reshape::Reshape(const std::vector<int64_t>& target_shape, const NameOptions& options)
    : Layer(std::make_shared<ReshapeBody>(checked(target_shape), options)) {}

ZeroPadding2D::ZeroPadding2D(const HeightWidth& padding, const NameOptions& options)
    : Layer(padding_body(padding, options)) {}

ZeroPadding2D::ZeroPadding2D(const BeforeAfter& height, const BeforeAfter& width,
                             const NameOptions& options)
    : Layer(padding_body(height, width, options)) {}

}  // namespace tandem::keras::layers
