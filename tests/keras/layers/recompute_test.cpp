// Layers whose values are computed again: the same gradients, in less memory.
#include <gtest/gtest.h>

#include "tandem/function.h"
#include "tandem/gradient_tape.h"
#include "tandem/keras/layers.h"
#include "tandem/keras/model.h"
#include "tandem/ops.h"

namespace tandem::keras::layers {
namespace {

constexpr int64_t kWidth = 16;

Layer block() {
  return Sequential({Dense(32 * kWidth, {.activation = "gelu", .input_shape = {kWidth}}),
                     BatchNormalization(), Dropout(0.3), Dense(kWidth, {.activation = "tanh"}),
                     Dropout(0.2)});
}

/// The gradients of a loss by all weights.
auto gradients_through(const std::vector<Layer>& layers) {
  return function([layers](const Tensor& x) {
    GradientTape tape;
    Tensor y = x;
    Variables weights;
    for (const Layer& layer : layers) {
      y = layer(y, {.training = true});
      const Variables own = layer.trainable_weights();
      weights.insert(weights.end(), own.begin(), own.end());
    }
    return tape.gradient(reduce_sum(square(y)), weights);
  });
}

TEST(Recompute, GradientsAndMovingStatisticsAreThoseOfTheLayer) {
  const std::vector<Layer> layers{block(), block()};
  std::vector<Layer> again;
  for (const Layer& layer : layers) again.emplace_back(Recompute(layer));
  const Tensor x = random_uniform({8, kWidth}, -1, 1, {.seed = 4});
  const Tensors start = layers[0].get_weights();
  const auto run = [&](const std::vector<Layer>& through) {
    layers[0].set_weights(start);
    layers[1].set_weights(start);
    random::set_seed(11);
    return gradients_through(through)(x);
  };
  const Tensors once = run(layers);
  const Tensors moved = layers[0].get_weights();
  const Tensors twice = run(again);
  ASSERT_EQ(once.size(), twice.size());
  for (size_t i = 0; i < once.size(); ++i) {
    EXPECT_LT(reduce_max(abs(once[i] - twice[i])).item<float>(), 1e-5f) << i;
    EXPECT_GT(reduce_max(abs(once[i])).item<float>(), 0.f) << i;
  }
  const Tensors also_moved = layers[0].get_weights();
  for (size_t i = 0; i < moved.size(); ++i) {
    EXPECT_EQ(moved[i].to_vector<float>(), also_moved[i].to_vector<float>()) << i;
  }
}

TEST(Recompute, ActivationsTakeLessMemory) {
  std::vector<Layer> layers, again;
  for (int i = 0; i < 6; ++i) {
    layers.push_back(block());
    again.emplace_back(Recompute(block()));
  }
  const auto bytes = [](const std::vector<Layer>& through) {
    const auto f = gradients_through(through);
    f(ones({64, kWidth}));
    return f.memory_plan(512).devices[0].arena_bytes;
  };
  EXPECT_LT(bytes(again), bytes(layers) / 2);
}

}  // namespace
}  // namespace tandem::keras::layers
