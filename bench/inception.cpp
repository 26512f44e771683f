/// A whole training step of InceptionV3, compiled, on the whole CPU.
#include <cmath>

#include "bench.h"
#include "device/logical_device.h"
#include "harness/classifier.h"
#include "tandem/keras/applications.h"

namespace tandem::bench {
namespace {

constexpr int64_t kBatch = 8;
constexpr int64_t kSide = 299;
constexpr int64_t kClasses = 1000;

/// Uniform within Glorot's limits: [.., in, out].
Tensor initial_kernel(uint64_t number, const Shape& shape) {
  const int rank = shape.rank();
  const int64_t channels = shape[rank - 2] + shape[rank - 1];
  const int64_t places = shape.count() / (shape[rank - 2] * shape[rank - 1]);
  const double limit = std::sqrt(6.0 / static_cast<double>(places * channels));
  std::vector<float> values(static_cast<size_t>(shape.count()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>((2 * harness::uniform(10 + number, i) - 1) * limit);
  }
  return Tensor::from(values, shape);
}

/// "conv2d_12" is made after "conv2d_3".
bool is_made_before(const keras::Layer& a, const keras::Layer& b) {
  return std::pair(a.name().size(), a.name()) < std::pair(b.name().size(), b.name());
}

/// The kernels get their numbers in the order in which Keras builds the network, the
/// classifier's the last. All else stays at its zeros and ones.
void set_kernels(const keras::Model& model) {
  std::vector<keras::Layer> layers;
  for (const keras::Layer& layer : model.layers()) {
    if (layer.body()->kind() == "conv2d") layers.push_back(layer);
  }
  std::ranges::sort(layers, is_made_before);
  layers.push_back(model.get_layer("predictions"));
  for (size_t i = 0; i < layers.size(); ++i) {
    const Variable kernel = layers[i].weights()[0];
    kernel.assign(initial_kernel(i, kernel.shape()));
  }
}

/// [8, 299, 299, 3] from -1 to 1.
Tensor images() {
  const Tensor values = harness::features<float>(kBatch, kSide * kSide * 3) * 2.0 - 1.0;
  return reshape(values, {kBatch, kSide, kSide, 3});
}

Tensor classes() {
  std::vector<int32_t> values;
  for (uint64_t r = 0; r < kBatch; ++r) {
    values.push_back(static_cast<int32_t>((harness::hashed(2, r) >> 33) % kClasses));
  }
  return Tensor::from(values, {kBatch});
}

}  // namespace

void inception() {
  constexpr int kLossSteps = 3;
  devices::reset_devices();
  const keras::Model model = keras::applications::InceptionV3({.classifier_activation = "linear"});
  set_kernels(model);
  const keras::optimizers::Adam optimizer(1e-6);
  const Variables weights = model.trainable_weights();
  const auto step = function([&](const Tensor& x, const Tensor& y) {
    GradientTape tape;
    const Tensor logits = model(x, {.training = true});
    const Tensor loss = compute_average_loss(sparse_softmax_cross_entropy_with_logits(y, logits));
    optimizer.apply_gradients(tape.gradient(loss, weights), weights);
    return loss;
  });
  const Tensor x = images();
  const Tensor y = classes();
  float loss = 0;
  for (int i = 0; i < kLossSteps; ++i) loss = step(x, y).item<float>();
  report("inception.loss", loss, "loss");
  report("inception", best_seconds([&] { step(x, y); }, 5, 0.3) * 1e6, "us");
}

}  // namespace tandem::bench
