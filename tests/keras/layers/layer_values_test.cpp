// Every layer against Keras: values and gradients from the same weights and inputs, in float64. See
// tests/fixtures/make_keras_layers.py.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "harness/fresh_devices.h"
#include "tandem/tandem.h"

namespace tandem::keras {
namespace {

using namespace layers;

struct Case {
  bool training = false;
  std::map<std::string, Tensors> tensors;  // The tensors, by their role.
};

Tensor read_tensor(std::istream& line) {
  std::string dtype;
  size_t rank = 0;
  line >> dtype >> rank;
  std::vector<int64_t> sizes(rank);
  for (int64_t& size : sizes) line >> size;
  const Shape shape{std::span<const int64_t>(sizes)};
  std::vector<double> values(static_cast<size_t>(shape.count()));
  for (double& value : values) line >> value;
  EXPECT_FALSE(line.fail());
  const Tensor numbers = Tensor::from(values, shape);
  if (dtype == "int64") return cast(numbers, DType::int64);
  return dtype == "boolean" ? cast(numbers, DType::boolean) : numbers;
}

const std::map<std::string, Case>& cases() {
  static const std::map<std::string, Case> all = [] {
    std::map<std::string, Case> read;
    std::ifstream file(TANDEM_FIXTURES_DIR "/keras_layers.txt");
    Case* current = nullptr;
    for (std::string text; std::getline(file, text);) {
      std::istringstream line(text);
      std::string role;
      line >> role;
      if (role == "#") continue;
      if (role == "layer") {
        std::string name;
        line >> name;
        current = &read[name];
        line >> current->training;
      } else {
        current->tensors[role].push_back(read_tensor(line));
      }
    }
    return read;
  }();
  return all;
}

std::map<std::string, Layer> all_layers() {
  std::map<std::string, Layer> all{
      {"dense", Dense(3, {.activation = "relu"})},
      {"dense_no_bias", Dense(3, {.use_bias = false})},
      {"dense_rank_3", Dense(3, {.activation = "tanh"})},
      {"conv2d", Conv2D(3, 3, {.activation = "relu"})},
      {"conv2d_same", Conv2D(3, {3, 2}, {.strides = 2, .padding = "same"})},
      {"conv2d_dilated", Conv2D(3, 2, {.dilation_rate = {2, 1}, .use_bias = false})},
      {"conv2d_groups", Conv2D(6, 3, {.groups = 2})},
      {"depthwise_conv2d", DepthwiseConv2D(3, {.padding = "same", .depth_multiplier = 2})},
      {"max_pooling2d", MaxPooling2D()},
      {"max_pooling2d_same", MaxPooling2D(3, {.strides = {2, 1}, .padding = "same"})},
      {"average_pooling2d", AveragePooling2D({2, 3})},
      {"average_pooling2d_same", AveragePooling2D(3, {.strides = 2, .padding = "same"})},
      {"global_average_pooling2d", GlobalAveragePooling2D()},
      {"global_max_pooling2d", GlobalMaxPooling2D({.keepdims = true})},
      {"zero_padding2d", ZeroPadding2D({1, 0}, {2, 3})},
      {"flatten", Flatten()},
      {"reshape", Reshape({-1, 8})},
      {"rescaling", Rescaling(0.5, -1)},
      {"embedding", Embedding(7, 3, {.dtype = DType::float64})},
      {"add", Add()},
      {"multiply", Multiply()},
      {"concatenate", Concatenate()},
      {"batch_normalization", BatchNormalization()},
      {"batch_normalization_training", BatchNormalization({.momentum = 0.9})},
      {"batch_normalization_bare", BatchNormalization({.center = false, .scale = false})},
      {"layer_normalization", LayerNormalization()},
      {"multi_head_attention", MultiHeadAttention(2, 3)},
      {"multi_head_attention_key",
       MultiHeadAttention(2, 3, {.value_dim = 4, .use_bias = false, .output_shape = 2})},
      {"multi_head_attention_causal", MultiHeadAttention(2, 3, {.use_causal_mask = true})},
      {"multi_head_attention_mask", MultiHeadAttention(2, 3)},
  };
  for (const auto& [name, one] : cases()) {
    if (name.starts_with("activation_")) {
      all.emplace(name, layers::Activation(name.substr(std::string("activation_").size())));
    }
  }
  return all;
}

/// Keras rounds some constants (slopes, scales of attention) to float32, whatever it computes in.
void expect_near(const Tensor& found, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(found.shape(), expected.shape()) << what;
  ASSERT_EQ(found.dtype(), expected.dtype()) << what;
  const auto a = found.to_vector<double>(), b = expected.to_vector<double>();
  double largest = 1;
  for (double value : b) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], 1e-7 * largest) << what << ", element " << i;
  }
}

void expect_near(const Tensors& found, const Tensors& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) expect_near(found[i], expected[i], what);
}

class LayerValues : public harness::FreshDevices {
 protected:
  static Tensors of(const Case& one, const char* role) {
    const auto known = one.tensors.find(role);
    return known == one.tensors.end() ? Tensors() : known->second;
  }
};

TEST_F(LayerValues, AreThoseOfKeras) {
  const std::map<std::string, Layer> all = all_layers();
  ASSERT_EQ(all.size(), cases().size());
  for (const auto& [name, one] : cases()) {
    const Layer& layer = all.at(name);
    const Tensors inputs = of(one, "input");
    layer(inputs);
    layer.set_weights(of(one, "weight"));
    GradientTape tape;
    const Tensors output = layer(inputs, {.training = one.training});
    const Tensor loss = reduce_sum(square(output[0]));
    expect_near(output, of(one, "output"), name);
    expect_near(tape.gradient(loss, layer.trainable_weights()), of(one, "gradient"), name);
    if (one.training) expect_near(layer.get_weights(), of(one, "after"), name);
  }
}

TEST_F(LayerValues, AreTheSameInATracedFunctionAndInADescribedModel) {
  for (const auto& [name, layer] : all_layers()) {
    const Case& one = cases().at(name);
    const Tensors inputs = of(one, "input");
    KerasTensors described;
    for (const Tensor& input : inputs) {
      described.push_back(Input(input.shape().without(0), input.dtype()));
    }
    const Model model(described, {layer(described)});
    model.set_weights(of(one, "weight"));
    const auto traced = function([&, training = one.training](const Tensors& x) {
      return model(x, {.training = training});
    });
    expect_near(traced(inputs), of(one, "output"), name);
    if (one.training) expect_near(model.get_weights(), of(one, "after"), name);
  }
}

}  // namespace
}  // namespace tandem::keras
