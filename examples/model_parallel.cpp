/// Model parallelism by hand: the first half of a model on one GPU, the second on another. Scopes
/// place layers and their variables; gradients are computed beside their ops. The losses are those
/// of the same model on one device.
#include <cmath>

#include "program.h"

namespace td = tandem;
namespace keras = td::keras;
namespace layers = keras::layers;
using td::Tensor;

namespace {

/// Trains on the images and returns the loss of each step. `first` and `second` are the devices of
/// the halves.
std::vector<float> train(const char* first, const char* second, const Tensor& x, const Tensor& y,
                         int steps, std::string* explanation) {
  td::random::set_seed(1);
  const auto half = [](const char* device, const std::vector<keras::Layer>& parts) {
    const auto scope = td::device(device);
    return keras::Sequential(parts);
  };
  const keras::Sequential lower =
      half(first, {layers::Dense(64, {.activation = "relu", .input_shape = {784}}),
                   layers::Dense(32, {.activation = "relu"})});
  const keras::Sequential upper = half(
      second, {layers::Dense(32, {.activation = "relu", .input_shape = {32}}), layers::Dense(10)});
  const keras::optimizers::Adam optimizer(0.01);
  const keras::losses::CategoricalCrossentropy loss_fn({.from_logits = true});
  const auto step = td::function([&](const Tensor& images, const Tensor& classes) {
    td::GradientTape tape;
    Tensor hidden;
    {
      const auto scope = td::device(first);
      hidden = lower(images, {.training = true});
    }
    const auto scope = td::device(second);
    const Tensor loss = loss_fn(classes, upper(hidden, {.training = true}));
    td::Variables weights = lower.trainable_weights();
    for (const td::Variable& weight : upper.trainable_weights()) weights.push_back(weight);
    optimizer.apply_gradients(tape.gradient(loss, weights), weights);
    return loss;
  });
  std::vector<float> losses;
  for (int i = 0; i < steps; ++i) losses.push_back(step(x, y).item<float>());
  if (explanation != nullptr) *explanation = step.explain();
  return losses;
}

}  // namespace

int main(int count, char** words) {
  example::Flags flags("Trains the halves of a model on two GPUs, then the whole on one",
                       "Where there are no two GPUs: model_parallel --opencl-cpu 2, with PoCL "
                       "installed, or --test-gpus 2");
  example::DeviceSetup placement;
  placement.add_to(flags);
  int steps = 20;
  int64_t rows = 512;
  bool explain = false;
  flags.add("--steps", steps, "Steps to train");
  flags.add("--rows", rows, "Pictures to learn from, all in each step");
  flags.add("--explain", explain, "Print the program: what runs where, and what moves between");
  return flags.run(count, words, [&] {
    placement.configure();
    const auto data = example::flat_fashion_mnist(rows);
    std::string explanation;
    const auto split = train("/gpu:0", "/gpu:1", data.train.x, data.train.y, steps, &explanation);
    const auto whole = train("/gpu:0", "/gpu:0", data.train.x, data.train.y, steps, nullptr);
    float largest = 0;
    for (size_t i = 0; i < split.size(); ++i) {
      largest = std::max(largest, std::abs(split[i] - whole[i]));
    }
    std::printf("loss %.4f -> %.4f on two GPUs\n", split.front(), split.back());
    std::printf("loss %.4f -> %.4f on one; the largest difference is %.2g\n", whole.front(),
                whole.back(), largest);
    if (explain) std::printf("%s", explanation.c_str());
  });
}
