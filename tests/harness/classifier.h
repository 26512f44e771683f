/// The small classifier 784-10-10, with data and weights from a fixed generator that
/// the figures of other frameworks (tests/fixtures, bench/peers) use too.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "tandem/tandem.h"

namespace tandem::harness {

/// splitmix64 of a position in stream `seed`.
inline uint64_t hashed(uint64_t seed, uint64_t i) {
  uint64_t z = seed * 0x9E3779B97F4A7C15u + (i + 1) * 0x9E3779B97F4A7C15u;
  z ^= z >> 30;
  z *= 0xBF58476D1CE4E5B9u;
  z ^= z >> 27;
  z *= 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/// A number in [0, 1), with 24 bits.
inline double uniform(uint64_t seed, uint64_t i) {
  return static_cast<double>(hashed(seed, i) >> 40) * 0x1p-24;
}

template <class T>
Tensor features(int64_t rows, int64_t columns = 784) {
  std::vector<T> values(static_cast<size_t>(rows * columns));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(uniform(1, i));
  return Tensor::from(values, {rows, columns});
}

/// One-hot rows of ten classes.
template <class T>
Tensor labels(int64_t rows) {
  std::vector<T> values(static_cast<size_t>(rows) * 10);
  for (size_t r = 0; r < static_cast<size_t>(rows); ++r)
    values[r * 10 + (hashed(2, r) >> 33) % 10] = 1;
  return Tensor::from(values, {rows, 10});
}

/// Dense layers with relu between, softmax cross-entropy, Adam: everything that one training step
/// needs.
template <class T>
class Classifier {
 public:
  explicit Classifier(const std::vector<int64_t>& sizes = {784, 10, 10},
                      double learning_rate = 0.01)
      : optimizer(learning_rate) {
    for (size_t layer = 0; layer + 1 < sizes.size(); ++layer) {
      variables.emplace_back(initial_kernel(layer, sizes[layer], sizes[layer + 1]),
                             VariableOptions{.name = "kernel" + std::to_string(layer)});
      const std::vector<T> zeros(static_cast<size_t>(sizes[layer + 1]));
      variables.emplace_back(Tensor::from(zeros, {sizes[layer + 1]}),
                             VariableOptions{.name = "bias" + std::to_string(layer)});
    }
  }

  Tensor logits(const Tensor& x) const {
    Tensor h = x;
    for (size_t i = 0; i < variables.size(); i += 2) {
      h = matmul(h, variables[i]) + variables[i + 1];
      if (i + 2 < variables.size()) h = relu(h);
    }
    return h;
  }

  /// One step of training; the loss before it.
  Tensor train_step(const Tensor& x, const Tensor& y) const {
    GradientTape tape;
    const Tensor loss = compute_average_loss(softmax_cross_entropy_with_logits(y, logits(x)));
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
  static Tensor initial_kernel(size_t layer, int64_t in, int64_t out) {
    std::vector<T> values(static_cast<size_t>(in * out));
    const double limit = std::sqrt(6.0 / static_cast<double>(in + out));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<T>((2 * uniform(10 + layer, i) - 1) * limit);
    }
    return Tensor::from(values, {in, out});
  }
};

}  // namespace tandem::harness
