// Inception v3 (Szegedy et al.: Rethinking the Inception Architecture for Computer Vision, 2015),
// as Keras builds it: the same layers in the same order.
#include <fmt/format.h>

#include "tandem/error.h"
#include "tandem/keras/applications.h"

namespace tandem::keras::applications {
namespace {

using namespace layers;

struct Convolution {
  int64_t filters;
  HeightWidth size;
};
using Convolutions = std::vector<Convolution>;

/// A convolution without bias, normalised, with relu.
KerasTensor convolution(const KerasTensor& x, const Convolution& step, int64_t stride = 1,
                        const char* padding = "same") {
  const Conv2D conv(step.filters, step.size,
                    {.strides = stride, .padding = padding, .use_bias = false});
  return layers::Activation("relu")(BatchNormalization({.scale = false})(conv(x)));
}

KerasTensor chain(KerasTensor x, const Convolutions& steps) {
  for (const Convolution& step : steps) x = convolution(x, step);
  return x;
}

/// Convolutions of which the last one halves the image.
KerasTensor halving_chain(const KerasTensor& x, Convolutions steps) {
  const Convolution last = steps.back();
  steps.pop_back();
  return convolution(chain(x, steps), last, 2, "valid");
}

KerasTensor halved(const KerasTensor& x) { return MaxPooling2D(3, {.strides = 2})(x); }

KerasTensor pooled(const KerasTensor& x, int64_t filters) {
  const AveragePooling2D mean(3, {.strides = 1, .padding = "same"});
  return convolution(mean(x), {filters, 1});
}

KerasTensor mixed(int number, const KerasTensors& branches) {
  return Concatenate({.name = fmt::format("mixed{}", number)})(branches);
}

/// 35 x 35 images for an input of 299 x 299, here and below.
KerasTensor stem(const KerasTensor& images) {
  KerasTensor x = convolution(images, {32, 3}, 2, "valid");
  x = convolution(x, {32, 3}, 1, "valid");
  x = halved(convolution(x, {64, 3}));
  x = convolution(x, {80, 1}, 1, "valid");
  return halved(convolution(x, {192, 3}, 1, "valid"));
}

KerasTensor block_35(int number, const KerasTensor& x, int64_t pool_filters) {
  const KerasTensor one = convolution(x, {64, 1});
  const KerasTensor five = chain(x, {{48, 1}, {64, 5}});
  const KerasTensor three_twice = chain(x, {{64, 1}, {96, 3}, {96, 3}});
  return mixed(number, {one, five, three_twice, pooled(x, pool_filters)});
}

KerasTensor to_17(int number, const KerasTensor& x) {
  const KerasTensor three = halving_chain(x, {{384, 3}});
  const KerasTensor three_twice = halving_chain(x, {{64, 1}, {96, 3}, {96, 3}});
  return mixed(number, {three, three_twice, halved(x)});
}

/// A filter of 7 x 7 as one of 1 x 7 after one of 7 x 1.
KerasTensor block_17(int number, const KerasTensor& x, int64_t width) {
  const KerasTensor one = convolution(x, {192, 1});
  const KerasTensor seven = chain(x, {{width, 1}, {width, {1, 7}}, {192, {7, 1}}});
  const KerasTensor seven_twice =
      chain(x, {{width, 1}, {width, {7, 1}}, {width, {1, 7}}, {width, {7, 1}}, {192, {1, 7}}});
  return mixed(number, {one, seven, seven_twice, pooled(x, 192)});
}

KerasTensor to_8(int number, const KerasTensor& x) {
  const KerasTensor three = halving_chain(x, {{192, 1}, {320, 3}});
  const KerasTensor seven_three =
      halving_chain(x, {{192, 1}, {192, {1, 7}}, {192, {7, 1}}, {192, 3}});
  return mixed(number, {three, seven_three, halved(x)});
}

/// Filters of 1 x 3 and 3 x 1 side by side.
KerasTensors spread(const KerasTensor& x) {
  const KerasTensor wide = convolution(x, {384, {1, 3}});
  return {wide, convolution(x, {384, {3, 1}})};
}

KerasTensor block_8(int number, const KerasTensor& x) {
  const KerasTensor one = convolution(x, {320, 1});
  const Concatenate first({.name = fmt::format("mixed9_{}", number - 9)});
  const KerasTensor three = first(spread(convolution(x, {384, 1})));
  const KerasTensor three_twice = Concatenate()(spread(chain(x, {{448, 1}, {384, 3}})));
  return mixed(number, {one, three, three_twice, pooled(x, 192)});
}

KerasTensor features(const KerasTensor& images) {
  KerasTensor x = stem(images);
  x = block_35(0, x, 32);
  x = block_35(1, x, 64);
  x = block_35(2, x, 64);
  x = to_17(3, x);
  x = block_17(4, x, 128);
  x = block_17(5, x, 160);
  x = block_17(6, x, 160);
  x = block_17(7, x, 192);
  x = to_8(8, x);
  x = block_8(9, x);
  return block_8(10, x);
}

KerasTensor end_of(const KerasTensor& x, const InceptionV3Options& options) {
  if (options.include_top) {
    const Dense predictions(options.classes,
                            {.activation = options.classifier_activation, .name = "predictions"});
    return predictions(GlobalAveragePooling2D({.name = "avg_pool"})(x));
  }
  if (options.pooling == "avg") return GlobalAveragePooling2D()(x);
  return options.pooling == "max" ? GlobalMaxPooling2D()(x) : x;
}

void check(const InceptionV3Options& options) {
  const Shape& shape = options.input_shape;
  constexpr int64_t kLeast = 75;
  if (shape.rank() != 3 || shape[0] < kLeast || shape[1] < kLeast || shape[2] < 1) {
    throw InvalidArgument(
        fmt::format("inception_v3: input_shape is {}; [height,width,channels] with at least {} x "
                    "{} is accepted",
                    shape.str(), kLeast, kLeast));
  }
  if (options.weights) {
    throw InvalidArgument(fmt::format(
        "inception_v3: weights is '{}', only none is accepted; restore a checkpoint instead",
        *options.weights));
  }
  if (options.classes < 1) {
    throw InvalidArgument(
        fmt::format("inception_v3: classes is {}, at least 1 is needed", options.classes));
  }
  const std::string& pooling = options.pooling;
  if (pooling.empty() || (!options.include_top && (pooling == "avg" || pooling == "max"))) return;
  throw InvalidArgument(fmt::format(
      "inception_v3: pooling is '{}'; 'avg' and 'max' are accepted, without a top", pooling));
}

}  // namespace

Model InceptionV3(const InceptionV3Options& options) {
  check(options);
  const KerasTensor images = Input(options.input_shape);
  return {{images}, {end_of(features(images), options)}, options.name};
}

}  // namespace tandem::keras::applications
