#include "trajectories.h"

#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "tandem/tandem.h"

namespace tandem::interop {
namespace {

namespace layers = keras::layers;
namespace optimizers = keras::optimizers;
using Json = nlohmann::json;

constexpr DType kDType = DType::float64;
constexpr double kSmallRate = 1.0 / 256;
constexpr double kBeta2 = 1 - 1.0 / 1024;

// The models and optimizers of trajectories.py, which says what they are for.

keras::Model mlp() {
  const auto x = keras::Input({20}, kDType);
  auto h = layers::Dense(32, {.activation = "relu"})(x);
  h = layers::Dense(32, {.activation = "tanh"})(h);
  return {{x}, {layers::Dense(10)(h)}};
}

keras::Model convnet() {
  const auto x = keras::Input({12, 12, 1}, kDType);
  auto h = layers::Conv2D(8, 3)(x);
  h = layers::Activation("relu")(layers::BatchNormalization()(h));
  h = layers::MaxPooling2D(2)(h);
  h = layers::Conv2D(16, 3, {.padding = "same", .use_bias = false})(h);
  h = layers::Activation("relu")(layers::BatchNormalization()(h));
  h = layers::Flatten()(layers::MaxPooling2D(2)(h));
  return {{x}, {layers::Dense(10)(h)}};
}

keras::Model transformer() {
  const auto x = keras::Input({12}, DType::int32);
  auto h = layers::Embedding(10, 16, {.dtype = kDType})(x);
  const auto seen =
      layers::MultiHeadAttention(4, 4, {.use_causal_mask = true})(layers::LayerNormalization()(h));
  h = layers::Add()(keras::KerasTensors{h, seen});
  const auto wide = layers::Dense(64, {.activation = "gelu"})(layers::LayerNormalization()(h));
  h = layers::Add()(keras::KerasTensors{h, layers::Dense(16)(wide)});
  return {{x}, {layers::Dense(10)(layers::LayerNormalization()(h))}};
}

const std::map<std::string, keras::Model (*)()> kModels = {
    {"mlp", mlp}, {"convnet", convnet}, {"transformer", transformer}};

const std::map<std::string, std::function<optimizers::Optimizer()>> kOptimizers = {
    {"sgd", [] { return optimizers::SGD(0.0625); }},
    {"sgd_momentum", [] { return optimizers::SGD(0.03125, {.momentum = 0.875}); }},
    {"sgd_nesterov",
     [] { return optimizers::SGD(0.03125, {.momentum = 0.875, .nesterov = true}); }},
    {"rmsprop", [] { return optimizers::RMSprop(kSmallRate, {.rho = 0.875}); }},
    {"adagrad", [] { return optimizers::Adagrad(0.0625, {.initial_accumulator_value = 0.125}); }},
    {"adam", [] { return optimizers::Adam(kSmallRate, {.beta_1 = 0.875, .beta_2 = kBeta2}); }},
    {"adamw",
     [] {
       return optimizers::AdamW(kSmallRate,
                                {.weight_decay = 0.0625, .beta_1 = 0.875, .beta_2 = kBeta2});
     }},
};

class Row {
 public:
  Row(const NamedTensors& entries, int number)
      : entries_(entries), prefix_(std::to_string(number) + "/") {}

  bool exists() const { return entries_.contains(prefix_ + "row"); }

  void train(NamedTensors& results) const {
    try {
      const std::vector<double> losses = this->losses();
      results[prefix_ + "losses"] = Tensor::from(losses, {static_cast<int64_t>(losses.size())});
    } catch (const std::exception& error) {
      const std::string text = error.what();
      results[prefix_ + "error"] = Tensor::from(std::vector<uint8_t>(text.begin(), text.end()),
                                                {static_cast<int64_t>(text.size())});
    }
  }

 private:
  const Tensor& entry(const std::string& name) const { return entries_.at(prefix_ + name); }

  std::vector<double> losses() const {
    const auto text = entry("row").to_vector<uint8_t>();
    const Json row = Json::parse(text.begin(), text.end());
    const keras::Model model = kModels.at(row.at("model").get<std::string>())();
    model.set_weights(weights());
    model.compile({.optimizer = kOptimizers.at(row.at("optimizer").get<std::string>())(),
                   .loss = keras::losses::SparseCategoricalCrossentropy({.from_logits = true})});
    const auto step = [&](const char* name, int64_t i) {
      const Tensor& all = entry(name);
      return squeeze(all.rows(i, i + 1), {0});
    };
    std::vector<double> losses;
    for (int64_t i = 0; i < entry("x").shape()[0]; ++i) {
      losses.push_back(model.train_on_batch({step("x", i)}, {step("y", i)}).at("loss"));
    }
    return losses;
  }

  Tensors weights() const {
    Tensors found;
    for (;;) {
      const auto entry = entries_.find(prefix_ + "weight" + std::to_string(found.size()));
      if (entry == entries_.end()) return found;
      found.push_back(entry->second);
    }
  }

  const NamedTensors& entries_;
  std::string prefix_;
};

}  // namespace

int train_rows(const std::string& from, const std::string& to) {
  const NamedTensors entries = load_npz(from);
  NamedTensors results;
  for (int number = 0; Row(entries, number).exists(); ++number) {
    Row(entries, number).train(results);
  }
  save_npz(to, results);
  return 0;
}

}  // namespace tandem::interop
