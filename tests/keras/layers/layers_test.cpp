#include "tandem/keras/layers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/tandem.h"

namespace tandem::keras {
namespace {

using namespace layers;
using harness::throws;

std::vector<float> values(const Tensor& tensor) { return tensor.to_vector<float>(); }

class LayersTest : public harness::FreshDevices {};

std::string weights_text(const Layer& layer, const KerasTensors& inputs) {
  layer(inputs);
  std::string text;
  for (const Variable& weight : layer.weights()) {
    text += weight.name() + weight.shape().str() + (weight.trainable() ? " " : "* ");
  }
  return text;
}

/// Names, shapes and counts are Keras's.
TEST_F(LayersTest, WeightsHaveKerasNamesAndShapes) {
  const KerasTensor image = Input({8, 8, 6}), tokens = Input({5, 16});
  EXPECT_EQ(weights_text(Dense(4, {.name = "d"}), {tokens}), "d/kernel[16,4] d/bias[4] ");
  EXPECT_EQ(weights_text(Conv2D(4, {3, 2}, {.groups = 2, .name = "c"}), {image}),
            "c/kernel[3,2,3,4] c/bias[4] ");
  EXPECT_EQ(weights_text(DepthwiseConv2D(3, {.depth_multiplier = 2, .name = "c"}), {image}),
            "c/kernel[3,3,6,2] c/bias[12] ");
  EXPECT_EQ(weights_text(BatchNormalization({.name = "b"}), {image}),
            "b/gamma[6] b/beta[6] b/moving_mean[6]* b/moving_variance[6]* ");
  EXPECT_EQ(weights_text(LayerNormalization({.axis = -2, .name = "l"}), {tokens}),
            "l/gamma[5,16] l/beta[5,16] ");
  EXPECT_EQ(weights_text(Embedding(100, 8, {.name = "e"}), {Input({5}, DType::int64)}),
            "e/embeddings[100,8] ");
  EXPECT_EQ(weights_text(MultiHeadAttention(2, 3, {.value_dim = 4, .name = "m"}), {tokens, tokens}),
            "m/query/kernel[16,2,3] m/query/bias[2,3] m/key/kernel[16,2,3] m/key/bias[2,3] "
            "m/value/kernel[16,2,4] m/value/bias[2,4] m/attention_output/kernel[2,4,16] "
            "m/attention_output/bias[16] ");
}

TEST_F(LayersTest, WeightsHaveTheTypeOfTheInput) {
  const Dense dense(2);
  EXPECT_EQ(dense(zeros({1, 3}, DType::float64)).dtype(), DType::float64);
  EXPECT_EQ(dense.weights()[0].dtype(), DType::float64);
}

TEST_F(LayersTest, NamesCountByKind) {
  const auto number = [](const Layer& layer) {
    const std::string& name = layer.name();
    const std::string digits = name.substr(name.find_last_not_of("0123456789") + 1);
    return name.starts_with("rescaling_") ? std::stoi(digits) : 0;
  };
  const Rescaling first(1), second(1);
  EXPECT_EQ(number(second), number(first) + 1);
  EXPECT_EQ(Rescaling(1, 0, {.name = "own"}).name(), "own");
}

TEST_F(LayersTest, DropoutIsForTraining) {
  random::set_seed(3);
  const Dropout dropout(0.25);
  const Tensor x = ones({40, 100});
  EXPECT_EQ(values(dropout(x)), values(x));
  const auto dropped = values(dropout(x, {.training = true}));
  const auto zeros = std::ranges::count(dropped, 0.f);
  EXPECT_NEAR(static_cast<double>(zeros), 1000, 120);
  EXPECT_NEAR(*std::ranges::max_element(dropped), 1 / 0.75, 1e-6);
}

TEST_F(LayersTest, AFrozenBatchNormalizationIsThatOfInference) {
  const BatchNormalization norm;
  const Tensor x = Tensor::of({{1.f, 10.f}, {3.f, 30.f}});
  norm(x, {.training = true});
  EXPECT_NEAR(values(norm.weights()[2])[1], 0.2, 1e-6);
  EXPECT_NEAR(values(norm.weights()[3])[1], 0.99 + 1, 1e-5);
  const auto before = values(norm.weights()[2]);
  norm.set_trainable(false);
  EXPECT_EQ(values(norm(x, {.training = true})), values(norm(x)));
  EXPECT_EQ(values(norm.weights()[2]), before);
  EXPECT_TRUE(norm.trainable_weights().empty());
}

class BatchNormalizationOfReplicas : public harness::FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  }

  static Tensors step(const Layer& norm, const Tensor& x) {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = norm(x, {.training = true});
    const Tensor loss = reduce_sum(y * y * y);
    return {y, tape.gradient(loss, x)};
  }
};

/// An odd number of rows: the replicas have three and two.
TEST_F(BatchNormalizationOfReplicas, SynchronizedIsThatOfOneDevice) {
  const Tensor x = random_normal({5, 4, 3}, 2, 3, {.dtype = DType::float64, .seed = 1});
  const BatchNormalization alone;
  const Tensors expected = step(alone, x);

  const distribute::MirroredStrategy strategy({"/CPU:0", "/CPU:1"});
  const auto scope = strategy.scope();
  const BatchNormalization norm({.synchronized = true});
  const auto run = function([&](const Tensor& rows) { return step(norm, rows); });
  const auto results = strategy.run(run, strategy.split(x));
  for (size_t i = 0; i < 2; ++i) {
    const Tensor whole = concat({results[i].value(0), results[i].value(1)}, 0);
    const auto a = whole.to_vector<double>(), b = expected[i].to_vector<double>();
    ASSERT_EQ(a.size(), b.size());
    for (size_t n = 0; n < a.size(); ++n) EXPECT_NEAR(a[n], b[n], 1e-9) << i << ", " << n;
  }
  for (size_t i = 0; i < 4; ++i) {
    const auto a = norm.get_weights()[i].to_vector<double>();
    const auto b = alone.get_weights()[i].to_vector<double>();
    for (size_t n = 0; n < a.size(); ++n) EXPECT_NEAR(a[n], b[n], 1e-12) << i;
  }
}

/// Each normalises by its own rows; the moving statistics are of all, also where one has none.
TEST_F(BatchNormalizationOfReplicas, MovingStatisticsAreOfAllRows) {
  for (const int64_t rows : {5, 1}) {
    const Tensor x = random_normal({rows, 4, 3}, 2, 3, {.dtype = DType::float64, .seed = 1});
    const BatchNormalization alone;
    step(alone, x);
    const distribute::MirroredStrategy strategy({"/CPU:0", "/CPU:1"});
    const auto scope = strategy.scope();
    const BatchNormalization norm;
    const auto run = function([&](const Tensor& part) { return step(norm, part); });
    strategy.run(run, strategy.split(x));
    for (const size_t i : {2, 3}) {
      const auto a = norm.get_weights()[i].to_vector<double>();
      const auto b = alone.get_weights()[i].to_vector<double>();
      for (size_t n = 0; n < a.size(); ++n) EXPECT_NEAR(a[n], b[n], 1e-12) << rows;
    }
  }
}

TEST_F(LayersTest, AttentionTakesItsMaskAsInputOrFromTheContext) {
  const MultiHeadAttention attention(2, 3);
  const Tensor x = random_normal({2, 4, 5}, 0, 1, {.seed = 1});
  const Tensor mask = Tensor::of({{true, true, false, true}, {true, false, false, true}});
  const auto by_context = values(attention(Tensors{x, x}, {.mask = mask})[0]);
  EXPECT_EQ(values(attention(Tensors{x, x, mask})[0]), by_context);
  EXPECT_NE(values(attention(Tensors{x, x})[0]), by_context);
  EXPECT_EQ(values(attention(x)), values(attention(Tensors{x, x})[0]));
  const Tensor full = broadcast_to(expand_dims(mask, 1), {2, 4, 4});
  EXPECT_EQ(values(attention(Tensors{x, x, full})[0]), by_context);
}

/// With a rate next to nothing, attention with dropout is attention.
TEST_F(LayersTest, AttentionWithDropoutIsAttentionWhoseWeightsAreDropped) {
  const Tensor x = random_normal({2, 4, 5}, 0, 1, {.dtype = DType::float64, .seed = 1});
  const Tensor mask = Tensor::of({{true, true, false, true}, {false, false, false, true}});
  const MultiHeadAttention hardly(2, 3, {.dropout = 1e-12, .use_causal_mask = true});
  const auto a = hardly(Tensors{x, x, mask})[0].to_vector<double>();
  const auto b = hardly(Tensors{x, x, mask}, {.training = true})[0].to_vector<double>();
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-9);
  const MultiHeadAttention half(2, 3, {.dropout = 0.5});
  EXPECT_NE(half(Tensors{x, x}, {.training = true})[0].to_vector<double>(),
            half(Tensors{x, x})[0].to_vector<double>());
}

TEST_F(LayersTest, EmbeddingTakesNumbersOfAnyType) {
  const Embedding embedding(4, 2, {.embeddings_initializer = initializers::constant(2)});
  EXPECT_EQ(embedding(Tensor::of({{1, 2, 3}})).shape(), (Shape{1, 3, 2}));
  EXPECT_EQ(values(embedding(Tensor::of({1.f}))), (std::vector<float>{2, 2}));
  EXPECT_EQ(values(Embedding(4, 2, {.input_shape = {3}})(zeros({1, 0}))).size(), 0u);
}

TEST_F(LayersTest, LambdaIsAFunction) {
  const Lambda square([](const Tensor& x) { return x * x; });
  EXPECT_EQ(values(square(Tensor::of({2.f, 3.f}))), (std::vector<float>{4, 9}));
  const Lambda swap([](const Tensors& x) { return Tensors{x[1], x[0]}; });
  const KerasTensors both = swap.all({Input({2}), Input({3})});
  EXPECT_EQ(both[0].shape(), (Shape{-1, 3}));
  EXPECT_EQ(both[1].shape(), (Shape{-1, 2}));
}

TEST_F(LayersTest, RescalingMakesFloats) {
  const Tensor pixels = cast(Tensor::of({0, 255}), DType::uint8);
  EXPECT_EQ(values(Rescaling(2.0 / 255, -1)(pixels)), (std::vector<float>{-1, 1}));
}

TEST_F(LayersTest, EmptyBatchesGoThrough) {
  const Sequential model({Conv2D(2, 3, {.input_shape = {6, 6, 1}}), BatchNormalization(),
                          MaxPooling2D(), Reshape({-1, 2}), Flatten(), Dense(3)});
  EXPECT_EQ(model(zeros({0, 6, 6, 1})).shape(), (Shape{0, 3}));
  EXPECT_EQ(model(zeros({2, 6, 6, 1})).shape(), (Shape{2, 3}));
}

TEST_F(LayersTest, MistakesAreNamedWhenTheLayerIsMade) {
  const auto says = [](const auto& make, std::string_view text) {
    return throws<InvalidArgument>(make, {text});
  };
  EXPECT_TRUE(says([] { Dense(0); }, "dense: units is 0, at least 1 is needed"));
  EXPECT_TRUE(says([] { Dense(1, {.activation = "rely"}); }, "'rely' is not known; there are lin"));
  EXPECT_TRUE(says([] { Dropout(1); }, "dropout: rate is 1, a number within [0, 1)"));
  EXPECT_TRUE(says([] { Conv2D(0, 3); }, "conv2d: filters is 0"));
  EXPECT_TRUE(says([] { Conv2D(1, {3, 0}); }, "conv2d: kernel_size is 0"));
  EXPECT_TRUE(says([] { Conv2D(1, 3, {.strides = 0}); }, "conv2d: strides is 0"));
  EXPECT_TRUE(says([] { Conv2D(1, 3, {.padding = "full"}); }, "'full', 'valid' and 'same'"));
  EXPECT_TRUE(says([] { Conv2D(3, 3, {.groups = 2}); }, "3 filters cannot be cut into 2"));
  EXPECT_TRUE(says([] { Conv2D(3, 3, {.data_format = "channels_first"}); },
                   "data_format is 'channels_first', only 'channels_last'"));
  EXPECT_TRUE(says([] { DepthwiseConv2D(3, {.depth_multiplier = 0}); }, "depth_multiplier is 0"));
  EXPECT_TRUE(says([] { MaxPooling2D(0); }, "max_pooling2d: pool_size is 0"));
  EXPECT_TRUE(says([] { AveragePooling2D(2, {.strides = {1, -1}}); }, "strides is -1"));
  EXPECT_TRUE(says([] { GlobalMaxPooling2D({.data_format = "x"}); }, "data_format is 'x'"));
  EXPECT_TRUE(says([] { ZeroPadding2D(-1); }, "zero_padding2d: padding is -1"));
  EXPECT_TRUE(says([] { Reshape({-1, -1}); }, "target_shape is [-1,-1]"));
  EXPECT_TRUE(says([] { Reshape({2, -3}); }, "target_shape is [2,-3]"));
  EXPECT_TRUE(says([] { Embedding(0, 1); }, "embedding: input_dim is 0"));
  EXPECT_TRUE(says([] { MultiHeadAttention(0, 1); }, "num_heads is 0"));
  EXPECT_TRUE(says([] { MultiHeadAttention(1, 1, {.dropout = -1}); }, "dropout is -1"));
  EXPECT_TRUE(says([] { BatchNormalization({.momentum = 2}); }, "momentum is 2"));
  EXPECT_TRUE(says([] { LayerNormalization({.epsilon = -1}); }, "epsilon is -1"));
  EXPECT_TRUE(says([] { Concatenate({.axis = 0}); }, "axis is 0, the batch"));
  EXPECT_TRUE(says([] { Lambda(std::function<Tensor(const Tensor&)>()); }, "lambda: the function"));
}

TEST_F(LayersTest, MistakesAreNamedWhenItIsCalled) {
  const auto says = [](const Layer& layer, const Tensors& inputs, std::string_view text) {
    return throws<InvalidArgument>([&] { layer(inputs); }, {layer.name(), text});
  };
  const Tensor vector = zeros({3}), matrix = zeros({2, 3}), image = zeros({1, 4, 4, 3});
  EXPECT_TRUE(says(Dense(1), {vector}, "the input is [None], at least 2 axes are needed"));
  EXPECT_TRUE(says(Dense(1), {matrix, matrix}, "called with 2 inputs, it takes one"));
  EXPECT_TRUE(says(Conv2D(1, 1), {matrix}, "[batch,height,width,channels] is needed"));
  EXPECT_TRUE(says(Conv2D(2, 1, {.groups = 2}), {image}, "3 channels of the input"));
  EXPECT_TRUE(says(GlobalAveragePooling2D(), {matrix}, "[batch,height,width,channels]"));
  EXPECT_TRUE(says(Reshape({2, 2}), {matrix}, "[2,2] has not the 3 elements of an example"));
  EXPECT_TRUE(says(Reshape({-1, 2}), {matrix}, "[-1,2] has not the 3 elements"));
  EXPECT_TRUE(says(BatchNormalization({.axis = 1}), {image}, "axis is 1, only the last, 3 or -1"));
  EXPECT_TRUE(says(LayerNormalization({.axis = 0}), {matrix}, "1 to 1 and -1 to -1"));
  EXPECT_TRUE(says(MultiHeadAttention(1, 1), {matrix}, "at least 3 axes"));
  EXPECT_TRUE(says(MultiHeadAttention(1, 1),
                   {zeros({1, 2, 3}), zeros({1, 2, 3}), zeros({1, 2, 3}), zeros({1, 2, 3})},
                   "called with 4 inputs; query, value and key"));
}

}  // namespace
}  // namespace tandem::keras
