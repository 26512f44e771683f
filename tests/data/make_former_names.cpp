// Wrote former_names/: checkpoints with the names that Tandem gave layers, weights and rates before
// it took Keras 3's, and in expected.npz what the models compute.
#include <tandem/tandem.h>

using namespace tandem;
using namespace tandem::keras;
using namespace tandem::keras::layers;

namespace {

Tensor ramp(const Shape& shape, double scale = 1) {
  std::vector<float> values(static_cast<size_t>(shape.count()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(scale * (static_cast<double>(i * 7 % 11) - 5) / 8);
  }
  return Tensor::from(values, shape);
}

}  // namespace

int main() {
  NamedTensors expected;
  {
    const Sequential model(
        {Dense(4, {.activation = "relu", .input_shape = {3}}), BatchNormalization(), Dense(2)});
    const optimizers::Adam optimizer(0.013);
    model.compile({.optimizer = optimizer, .loss = "mse"});
    const Tensor x = ramp({6, 3}), y = ramp({6, 2});
    for (int i = 0; i < 2; ++i) model.train_on_batch({x}, {y});
    train::Checkpoint({{"model", model}, {"optimizer", optimizer}})
        .write("former_names/sequential");
    expected["sequential"] = model.predict(x);
    model.train_on_batch({x}, {y});
    expected["sequential after a step"] = model.predict(x);
  }
  {
    const KerasTensor tokens = Input({4}, DType::int32);
    const KerasTensor embedded = Embedding(5, 4)(tokens);
    const KerasTensor seen = MultiHeadAttention(2, 2)({embedded, embedded});
    const KerasTensor sum = LayerNormalization()(Add()({embedded, seen}));
    const Model model({tokens}, {Sequential({Dense(3)})(sum)});
    train::Checkpoint({{"model", model}}).write("former_names/functional");
    expected["functional"] = model.predict(Tensor::from<int32_t>({0, 1, 2, 3, 4, 3, 2, 1}, {2, 4}));
  }
  save_npz("former_names/expected.npz", expected);
}
