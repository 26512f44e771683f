/// A small GPT: a decoder-only transformer, with tokens and weights from the generator of
/// harness/classifier.h, which bench/peers uses too.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/classifier.h"
#include "tandem/tandem.h"

namespace tandem::harness {

struct TransformerSizes {
  int64_t layers = 4, width = 256, heads = 4, tokens = 128, vocabulary = 1024;
};

/// Texts [batch, tokens]: the tokens to read, and behind each the one to predict.
struct Texts {
  Tensor read, next;
};

inline Texts texts(int64_t batch, const TransformerSizes& sizes) {
  std::vector<int32_t> read, next;
  for (int64_t text = 0; text < batch; ++text) {
    for (int64_t i = 0; i <= sizes.tokens; ++i) {
      const auto word = hashed(4, static_cast<uint64_t>(text * (sizes.tokens + 1) + i)) >> 33;
      const auto token = static_cast<int32_t>(word % static_cast<uint64_t>(sizes.vocabulary));
      if (i < sizes.tokens) read.push_back(token);
      if (i > 0) next.push_back(token);
    }
  }
  const Shape shape{batch, sizes.tokens};
  return {Tensor::from(read, shape), Tensor::from(next, shape)};
}

/// Blocks that normalise first, gelu, biases everywhere, no dropout, AdamW.
template <class T>
class Transformer {
 public:
  explicit Transformer(const TransformerSizes& sizes = {}, double learning_rate = 1e-4)
      : sizes(sizes), optimizer(learning_rate) {
    const int64_t width = sizes.width;
    add_uniform("tokens", {sizes.vocabulary, width}, 0.05);
    add_uniform("positions", {sizes.tokens, width}, 0.05);
    for (int64_t layer = 0; layer < sizes.layers; ++layer) {
      add_norm("attention/norm");
      add_dense("attention/in", width, 3 * width);
      add_dense("attention/out", width, width);
      add_norm("feed_forward/norm");
      add_dense("feed_forward/in", width, 4 * width);
      add_dense("feed_forward/out", 4 * width, width);
    }
    add_norm("norm");
    add_dense("head", width, sizes.vocabulary);
  }

  /// [batch, tokens, vocabulary]
  Tensor logits(const Tensor& read) const {
    Reader next{variables.begin()};
    Tensor x = gather(next.variable(), read);
    x = x + next.variable();
    for (int64_t layer = 0; layer < sizes.layers; ++layer) {
      x = x + attend(next.norm(x), next);
      const Tensor h = gelu(next.dense(next.norm(x)));
      x = x + next.dense(h);
    }
    return next.dense(next.norm(x));
  }

  /// One step of training; the loss before it.
  Tensor train_step(const Texts& texts) const {
    GradientTape tape;
    const Tensor loss = compute_average_loss(
        sparse_softmax_cross_entropy_with_logits(texts.next, logits(texts.read)));
    optimizer.apply_gradients(tape.gradient(loss, variables), variables);
    return loss;
  }

  auto compiled_step() const {
    return function([self = *this](const Tensor& read, const Tensor& next) {
      return self.train_step({read, next});
    });
  }

  TransformerSizes sizes;
  Variables variables;
  keras::optimizers::AdamW optimizer;

 private:
  /// Takes the variables in the order in which they were added.
  struct Reader {
    Variables::const_iterator at;

    Tensor variable() { return *at++; }
    Tensor norm(const Tensor& x) {
      const Tensor gamma = variable();
      return layer_norm(x, gamma, variable(), {.epsilon = 1e-5});
    }
    Tensor dense(const Tensor& x) {
      const Tensor kernel = variable();
      return matmul(x, kernel) + variable();
    }
  };

  Tensor attend(const Tensor& x, Reader& next) const {
    const Shape heads{x.shape()[0], sizes.tokens, 3, sizes.heads, sizes.width / sizes.heads};
    const Tensor y = self_attention(reshape(next.dense(x), heads), {.causal = true});
    return next.dense(reshape(y, x.shape()));
  }

  void add_uniform(const char* name, const Shape& shape, double limit) {
    const uint64_t seed = 100 + variables.size();
    std::vector<T> values(static_cast<size_t>(shape.count()));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<T>((2 * uniform(seed, i) - 1) * limit);
    }
    variables.emplace_back(Tensor::from(values, shape), VariableOptions{.name = name});
  }
  void add_constant(const char* name, int64_t size, T value) {
    const std::vector<T> values(static_cast<size_t>(size), value);
    variables.emplace_back(Tensor::from(values, {size}), VariableOptions{.name = name});
  }
  void add_dense(const char* name, int64_t in, int64_t out) {
    add_uniform(name, {in, out}, std::sqrt(6.0 / static_cast<double>(in + out)));
    add_constant(name, out, 0);
  }
  void add_norm(const char* name) {
    add_constant(name, sizes.width, 1);
    add_constant(name, sizes.width, 0);
  }
};

}  // namespace tandem::harness
