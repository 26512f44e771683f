#include "models.h"

#include <map>

namespace tandem::interop {
namespace {

using keras::Input;
using keras::KerasTensor;
using keras::Layer;
using keras::Model;
using keras::Sequential;
using keras::optimizers::Optimizer;
using namespace keras::layers;

/// x + dense(x), with a weight of its own.
class Residual final : public keras::LayerBody {
 public:
  explicit Residual(int64_t width) : LayerBody("residual"), width_(width) {
    dense_ = add_layer("dense", Dense(width_, {.activation = "tanh"}));
  }
  void build(const keras::TensorSpecs&) override {
    scale_ = add_weight("scale", {width_}, {.initializer = "ones"});
  }
  Tensors call(const Tensors& inputs, const keras::CallContext& context) override {
    return {inputs[0] + (*dense_)(inputs[0], context) * scale_.value()};
  }

 private:
  int64_t width_;
  std::optional<Layer> dense_;
  Variable scale_;
};

class Subclassed final : public keras::LayerBody {
 public:
  Subclassed()
      : LayerBody("subclassed"),
        hidden_(add_layer("hidden", Dense(5, {.activation = "relu"}))),
        norm_(add_layer("norm", BatchNormalization())),
        drop_(add_layer("drop", Dropout(0, {.seed = 1}))),
        tail_(add_layer("tail",
                        Sequential({Dense(4, {.activation = "tanh"}), LayerNormalization()}))),
        head_(add_layer("head", Dense(3))) {}

  void build(const keras::TensorSpecs&) override {
    shift_ = add_weight("shift", {5}, {.initializer = "zeros"});
  }
  Tensors call(const Tensors& inputs, const keras::CallContext& context) override {
    const Tensor x = norm_(hidden_(inputs[0], context), context) + shift_.value();
    return {head_(tail_(drop_(x, context), context), context)};
  }

 private:
  Layer hidden_, norm_, drop_, tail_, head_;
  Variable shift_;
};

Layer relu_dense(int64_t units) { return Dense(units, {.activation = "relu"}); }

Model sequential() {
  return Sequential({InputLayer({6}), relu_dense(5), BatchNormalization(), Dense(3)});
}

Model sequential_shape() {
  return Sequential({Dense(5, {.activation = "relu", .input_shape = {6}}), LayerNormalization(),
                     Flatten(), Dense(3)});
}

Model sequential_deferred() { return Sequential({relu_dense(5), BatchNormalization(), Dense(3)}); }

Model frozen() {
  const Sequential model({InputLayer({6}), relu_dense(5), BatchNormalization(), Dense(3)});
  model.get_layer(size_t{0}).set_trainable(false);
  return model;
}

Model dropout() {
  return Sequential({InputLayer({6}), relu_dense(5), Dropout(0.4, {.seed = 7}), Dense(3)});
}

Model images() {
  const KerasTensor x = Input({8, 8, 2});
  KerasTensor y = BatchNormalization()(Conv2D(4, 3, {.padding = "same", .activation = "relu"})(x));
  y = DepthwiseConv2D(3, {.depth_multiplier = 2, .activation = "tanh"})(y);
  y = Activation("relu")(MaxPooling2D()(y));
  return Model({x}, {Dense(3)(Flatten()(y))});
}

Model tokens() {
  const KerasTensor x = Input({4}, DType::int32);
  const KerasTensor embedded = Embedding(40, 8)(x);
  const KerasTensor seen = MultiHeadAttention(2, 4)({embedded, embedded});
  return Model({x}, {Dense(3)(LayerNormalization()(Add()({embedded, seen})))});
}

Model attention_dropout() {
  const KerasTensor x = Input({4}, DType::int32);
  const KerasTensor embedded = Embedding(40, 8)(x);
  const KerasTensor seen = MultiHeadAttention(
      2, 4, {.value_dim = 3, .dropout = 0.2, .use_bias = false})({embedded, embedded});
  return Model({x}, {Dense(3)(Flatten()(Dropout(0.3)(seen)))});
}

Model branches() {
  const KerasTensor a = Input({4}), b = Input({4});
  const Dense shared(5, {.activation = "relu"});
  const KerasTensor left = shared(a), right = BatchNormalization()(shared(b));
  const KerasTensor joined = Concatenate()({left, right, Multiply()({left, right})});
  return Model({a, b}, {Dense(3)(joined), Dense(3)(Add()({left, right}))});
}

Model sequential_in_functional() {
  const KerasTensor x = Input({6});
  return Model({x}, {Dense(3)(Sequential({relu_dense(5), BatchNormalization()})(x))});
}

Model functional() {
  const KerasTensor x = Input({6});
  return Model({x}, {BatchNormalization()(relu_dense(5)(x))});
}

Model functional_in_sequential() { return Sequential({functional(), Dense(3)}); }

Model sequential_in_sequential() {
  return Sequential({InputLayer({6}), Sequential({relu_dense(5), LayerNormalization()}),
                     keras::make_layer<Residual>(5), Dense(3)});
}

Model deeply_nested() {
  const KerasTensor x = Input({6});
  const Sequential middle({InputLayer({6}), functional(), relu_dense(4)});
  return Model({x}, {Dense(3)(middle(x))});
}

Model subclassed() { return keras::make_model<Subclassed>(); }

template <class Made>
Made find(const std::map<std::string, Made (*)()>& makers, const std::string& kind) {
  const auto maker = makers.find(kind);
  if (maker == makers.end()) throw NotFound("interop: no model or optimizer '" + kind + "'");
  return maker->second();
}

}  // namespace

Model make_model(const std::string& kind) {
  return find<Model>({{"sequential", sequential},
                      {"sequential_shape", sequential_shape},
                      {"sequential_deferred", sequential_deferred},
                      {"frozen", frozen},
                      {"dropout", dropout},
                      {"images", images},
                      {"tokens", tokens},
                      {"attention_dropout", attention_dropout},
                      {"branches", branches},
                      {"sequential_in_functional", sequential_in_functional},
                      {"functional_in_sequential", functional_in_sequential},
                      {"sequential_in_sequential", sequential_in_sequential},
                      {"deeply_nested", deeply_nested},
                      {"subclassed", subclassed}},
                     kind);
}

Optimizer make_optimizer(const std::string& kind) {
  using namespace keras::optimizers;
  constexpr double kRate = 0.013;
  return find<Optimizer>(
      {{"sgd", []() -> Optimizer { return SGD(kRate); }},
       {"momentum", []() -> Optimizer { return SGD(kRate, {.momentum = 0.5, .nesterov = true}); }},
       {"rmsprop", []() -> Optimizer { return RMSprop(kRate); }},
       {"rmsprop_centered",
        []() -> Optimizer { return RMSprop(kRate, {.momentum = 0.5, .centered = true}); }},
       {"adagrad", []() -> Optimizer { return Adagrad(kRate); }},
       {"adam", []() -> Optimizer { return Adam(kRate); }},
       {"amsgrad", []() -> Optimizer { return Adam(kRate, {.amsgrad = true, .clipnorm = 1.0}); }},
       {"adamw", []() -> Optimizer { return AdamW(kRate, {.weight_decay = 0.1}); }},
       {"accumulation",
        []() -> Optimizer { return Adam(kRate, {.gradient_accumulation_steps = 2}); }},
       {"schedule",
        []() -> Optimizer { return Adam(schedules::ExponentialDecay(kRate, 2, 0.5)); }}},
      kind);
}

}  // namespace tandem::interop
