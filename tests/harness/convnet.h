/// A small convolutional classifier of 28x28 images, with data and weights from the generator of
/// classifier.h, as bench/peers/data.py has them too.
#pragma once

#include "harness/classifier.h"

namespace tandem::harness {

/// [rows, 28, 28, 1].
template <class T>
Tensor images(int64_t rows) {
  return reshape(features<T>(rows), {rows, 28, 28, 1});
}

/// The classes whose one-hot rows `labels` gives.
inline Tensor classes(int64_t rows) {
  std::vector<int32_t> values(static_cast<size_t>(rows));
  for (size_t r = 0; r < values.size(); ++r) {
    values[r] = static_cast<int32_t>((hashed(2, r) >> 33) % 10);
  }
  return Tensor::from(values, {rows});
}

/// Two 3x3 convolutions with relu and max pooling, a dense layer, sparse cross-entropy, Adam.
template <class T>
class Convnet {
 public:
  explicit Convnet(double learning_rate = 0.001) : optimizer(learning_rate) {
    add_layer({3, 3, 1, 32});
    add_layer({3, 3, 32, 64});
    add_layer({5 * 5 * 64, 10});
  }

  Tensor logits(const Tensor& x) const {
    Tensor h = x;
    for (size_t layer : {0, 1}) {
      h = max_pool2d(relu(conv2d(h, variables[2 * layer]) + variables[2 * layer + 1]));
    }
    return matmul(reshape(h, {h.shape()[0], 5 * 5 * 64}), variables[4]) + variables[5];
  }

  /// One step of training; the loss before it.
  Tensor train_step(const Tensor& x, const Tensor& y) const {
    GradientTape tape;
    const Tensor losses = sparse_softmax_cross_entropy_with_logits(y, logits(x));
    const Tensor loss = compute_average_loss(losses);
    optimizer.apply_gradients(tape.gradient(loss, variables), variables);
    return loss;
  }

  auto compiled_step() const {
    return function(
        [self = *this](const Tensor& x, const Tensor& y) { return self.train_step(x, y); });
  }

  Variables variables;
  keras::optimizers::Adam optimizer;

 private:
  /// A kernel [.., in, out], uniform within Glorot's limits, and a bias of zeros.
  void add_layer(const Shape& shape) {
    const size_t layer = variables.size() / 2;
    const int64_t out = shape[shape.rank() - 1];
    const int64_t in = shape[shape.rank() - 2];
    const int64_t places = shape.count() / (in * out);
    const double limit = std::sqrt(6.0 / static_cast<double>(places * (in + out)));
    std::vector<T> values(static_cast<size_t>(shape.count()));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<T>((2 * uniform(10 + layer, i) - 1) * limit);
    }
    variables.emplace_back(Tensor::from(values, shape),
                           VariableOptions{.name = "kernel" + std::to_string(layer)});
    const std::vector<T> zeros(static_cast<size_t>(out));
    variables.emplace_back(Tensor::from(zeros, {out}),
                           VariableOptions{.name = "bias" + std::to_string(layer)});
  }
};

}  // namespace tandem::harness
