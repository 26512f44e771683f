/// Models and data for the equivalence suite, all in float64.
#pragma once

#include "tandem/checks/equivalence.h"
#include "tandem/control_flow.h"
#include "tandem/keras/layers.h"
#include "tandem/ops.h"

namespace tandem::checks::models {

namespace layers = keras::layers;
using keras::CompileOptions;
using keras::Model;

inline Tensor numbers(const Shape& shape, uint64_t seed) {
  return random_uniform(shape, -1, 1, {.dtype = DType::float64, .seed = seed});
}

inline Tensor classes(const Shape& shape, int64_t count, uint64_t seed) {
  const Tensor wide =
      random_uniform(shape, 0, static_cast<double>(count), {.dtype = DType::float64, .seed = seed});
  return cast(wide, DType::int32);
}

inline keras::Loss sparse_loss(std::optional<int64_t> ignored = {}) {
  return keras::losses::SparseCategoricalCrossentropy(
      {.from_logits = true, .ignore_class = ignored});
}

inline CompileOptions classification() {
  return {
      .optimizer = keras::optimizers::Adam(0.01), .loss = sparse_loss(), .metrics = {"accuracy"}};
}

/// 70 rows, so that most batches do not divide and the last is small.
inline TrainingCase mlp() {
  TrainingCase training;
  training.model = [] {
    return keras::Sequential({layers::Dense(8, {.activation = "tanh"}), layers::Dense(3)});
  };
  training.compile = classification;
  training.x = {numbers({70, 5}, 1)};
  training.y = {classes({70}, 3, 2)};
  training.batch_size = 32;
  return training;
}

inline TrainingCase convnet() {
  TrainingCase training;
  training.model = [] {
    return keras::Sequential({
        layers::Conv2D(4, 3, {.use_bias = false}),
        layers::BatchNormalization({.momentum = 0.9, .synchronized = true}),
        layers::Activation("relu"),
        layers::MaxPooling2D(2),
        layers::Flatten(),
        layers::Dropout(0.3),
        layers::Dense(3),
    });
  };
  training.compile = classification;
  training.x = {numbers({26, 8, 8, 2}, 3)};
  training.y = {classes({26}, 3, 4)};
  training.batch_size = 9;
  return training;
}

/// Without statistics of the batch.
inline TrainingCase plain_convnet() {
  TrainingCase training = convnet();
  training.model = [] {
    return keras::Sequential({
        layers::Conv2D(4, 3, {.activation = "relu"}),
        layers::MaxPooling2D(2),
        layers::Flatten(),
        layers::Dropout(0.3),
        layers::Dense(3),
    });
  };
  return training;
}

inline TrainingCase transformer() {
  TrainingCase training;
  training.model = []() -> Model {
    const auto tokens = keras::Input({6, 8}, DType::float64);
    const auto attended =
        layers::MultiHeadAttention(2, 4, {.use_causal_mask = true})(keras::KerasTensors{tokens});
    const auto first = layers::LayerNormalization()(layers::Add()({tokens, attended}));
    const auto hidden = layers::Dense(8)(layers::Dense(16, {.activation = "gelu"})(first));
    const auto second = layers::LayerNormalization()(layers::Add()({first, hidden}));
    return {{tokens}, {layers::Dense(5)(second)}};
  };
  training.compile = classification;
  training.x = {numbers({22, 6, 8}, 5)};
  training.y = {classes({22, 6}, 5, 6)};
  training.batch_size = 7;
  return training;
}

/// The first layer and the last have one table.
inline TrainingCase tied_transformer() {
  TrainingCase training;
  training.model = []() -> Model {
    const auto tokens = keras::Input({6}, DType::int32);
    const layers::Embedding table(10, 8, {.dtype = DType::float64, .name = "table"});
    const auto x = table(tokens);
    const layers::MultiHeadAttention attention(
        4, 2, {.dropout = 0.1, .use_causal_mask = true, .name = "attention"});
    const auto attended = layers::Add()({x, attention(layers::LayerNormalization()(x))});
    const auto up = layers::Dense(16, {.activation = "gelu", .name = "up"});
    const auto down = layers::Dense(8, {.name = "down"});
    const auto thought =
        layers::Add()({attended, down(up(layers::LayerNormalization()(attended)))});
    return {{tokens}, {table.reverse()(layers::LayerNormalization()(thought))}};
  };
  training.compile = classification;
  training.x = {classes({22, 6}, 10, 5)};
  training.y = {classes({22, 6}, 10, 6)};
  training.batch_size = 7;
  return training;
}

/// Some rows of the table are never met, some by several replicas at once.
inline TrainingCase embedding() {
  TrainingCase training;
  training.model = [] {
    return keras::Sequential({
        layers::Embedding(20, 4, {.dtype = DType::float64}),
        layers::Flatten(),
        layers::Dense(2),
    });
  };
  training.compile = classification;
  training.x = {classes({30, 3}, 12, 7)};
  training.y = {classes({30}, 2, 8)};
  training.batch_size = 8;
  return training;
}

/// Two outputs of which many examples do not count, and a regularizer.
inline TrainingCase masked_outputs() {
  TrainingCase training;
  training.model = []() -> Model {
    const auto x = keras::Input({4}, DType::float64);
    const auto hidden = layers::Dense(
        6, {.activation = "tanh", .kernel_regularizer = keras::regularizers::l2(0.05)})(x);
    return {{x},
            {layers::Dense(3, {.name = "first"})(hidden),
             layers::Dense(2, {.name = "second"})(hidden)}};
  };
  training.compile = []() -> CompileOptions {
    return {.optimizer = keras::optimizers::Adam(0.01),
            .loss = {sparse_loss(0), sparse_loss(1)},
            .loss_weights = {1.0, 0.25}};
  };
  training.x = {numbers({37, 4}, 9)};
  training.y = {classes({37}, 3, 10), classes({37}, 2, 11)};
  training.batch_size = 10;
  return training;
}

/// Applies its kernel three times in a loop, and again in one of two branches.
class Again final : public keras::LayerBody {
 public:
  Again() : LayerBody("again") {}

  void build(const keras::TensorSpecs& inputs) override {
    const int64_t width = inputs[0].shape.extent(1);
    kernel_ = add_weight("kernel", {width, width}, {.dtype = DType::float64, .cut_axes = 2});
  }

  Tensors call(const Tensors& inputs, const keras::CallContext&) override {
    const auto apply = [&](const Tensor& x) { return tanh(matmul(x, kernel_.value())); };
    using State = std::pair<Tensor, Tensor>;
    const State last = while_loop([](const State& s) { return s.first < 3; },
                                  [&](const State& s) {
                                    return State{s.first + 1, apply(s.second)};
                                  },
                                  State{Tensor(0), inputs[0]});
    const Tensor& y = last.second;
    return {cond(
        kernel_.value()[0][0] > 0., [&] { return apply(y); }, [&] { return -apply(y); })};
  }

 private:
  Variable kernel_;
};

inline TrainingCase looped() {
  TrainingCase training = mlp();
  training.model = [] {
    return keras::Sequential({layers::Dense(8), keras::make_layer<Again>(),
                              keras::make_layer<Again>(), layers::Dense(3)});
  };
  return training;
}

/// Layers and their weights on two devices, by the scopes that they are described in. Norms of
/// gradients are those over both.
inline TrainingCase mlp_on_two(const std::string& first, const std::string& second) {
  TrainingCase training = mlp();
  training.model = [=]() -> Model {
    const auto x = keras::Input({5}, DType::float64);
    const auto hidden = [&] {
      const auto scope = device(first);
      return layers::Dense(8, {.activation = "tanh"})(x);
    }();
    const auto scope = device(second);
    return {{x}, {layers::Dense(3)(layers::Dense(6)(hidden))}};
  };
  training.compile = [] {
    CompileOptions options = classification();
    options.optimizer = keras::optimizers::Adam(0.01, {.global_clipnorm = 0.1});
    return options;
  };
  return training;
}

inline TrainingCase convnet_on_two(const std::string& first, const std::string& second) {
  TrainingCase training = convnet();
  training.model = [=]() -> Model {
    const auto x = keras::Input({8, 8, 2}, DType::float64);
    const auto pooled = [&] {
      const auto scope = device(first);
      return layers::MaxPooling2D(2)(layers::Conv2D(4, 3, {.activation = "relu"})(x));
    }();
    const auto scope = device(second);
    return {{x}, {layers::Dense(3)(layers::Dropout(0.3)(layers::Flatten()(pooled)))}};
  };
  return training;
}

/// The table is the first device's, and the second has a copy of it.
inline TrainingCase tied_transformer_on_two(const std::string& first, const std::string& second) {
  TrainingCase training = tied_transformer();
  training.model = [=]() -> Model {
    const auto tokens = keras::Input({6}, DType::int32);
    const layers::Embedding table(10, 8, {.dtype = DType::float64, .name = "table"});
    const auto attended = [&] {
      const auto scope = device(first);
      const auto x = table(tokens);
      const layers::MultiHeadAttention attention(4, 2, {.dropout = 0.1, .use_causal_mask = true});
      return layers::Add()({x, attention(layers::LayerNormalization()(x))});
    }();
    const auto scope = device(second);
    const auto up = layers::Dense(16, {.activation = "gelu", .name = "up"});
    const auto down = layers::Dense(8, {.name = "down"});
    const auto thought =
        layers::Add()({attended, down(up(layers::LayerNormalization()(attended)))});
    return {{tokens}, {table.reverse()(layers::LayerNormalization()(thought))}};
  };
  return training;
}

}  // namespace tandem::checks::models
