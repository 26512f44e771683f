/// Trains a convolutional network on the pictures of Fashion-MNIST on all devices, saves it,
/// restores it into another and evaluates that one.
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "program.h"

namespace td = tandem;
namespace keras = td::keras;
namespace layers = keras::layers;
using td::Tensor;

namespace {

constexpr int64_t kBatch = 64;

/// A network that is trained for so many steps, with a rate that falls to nothing.
keras::Sequential convnet(int64_t steps) {
  const keras::Sequential model({
      layers::Conv2D(32, 3, {.activation = "relu", .input_shape = {28, 28, 1}}),
      layers::MaxPooling2D(2),
      layers::Conv2D(64, 3, {.activation = "relu"}),
      layers::MaxPooling2D(2),
      layers::Flatten(),
      layers::Dense(10),
  });
  model.compile({
      .optimizer = keras::optimizers::Adam(keras::optimizers::schedules::CosineDecay(0.003, steps)),
      .loss = keras::losses::SparseCategoricalCrossentropy({.from_logits = true}),
      .metrics = {"accuracy"},
  });
  return model;
}

Tensor pictures(const Tensor& bytes) {
  return td::cast(td::expand_dims(bytes, -1), td::DType::float32) / 255.0;
}

/// A new folder that is this run's alone.
std::filesystem::path new_folder() {
  std::string name = std::filesystem::temp_directory_path() / "tandem-demo-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) throw td::Unavailable(name + " cannot be made");
  return name;
}

}  // namespace

int main(int count, char** words) {
  example::Flags flags("Trains, saves, restores and evaluates a convolutional network");
  int64_t seed = 1;
  int epochs = 5;
  int64_t most = 60'000;
  std::string folder;
  flags.add("--epochs", epochs, "Passes over the data");
  flags.add("--rows", most, "Pictures to learn from");
  flags.add("--seed", seed, "Of the weights and of the order of the pictures", 0);
  flags.add("--folder", folder, "Where to save it; else in a new folder for temporary files");
  return flags.run(count, words, [&] {
    td::random::set_seed(static_cast<uint64_t>(seed));
    const auto [train, test] = keras::datasets::fashion_mnist::load_data();
    const int64_t rows = std::min<int64_t>(most, train.y.shape()[0]);
    const int64_t steps = epochs * ((rows + kBatch - 1) / kBatch);

    const td::distribute::MirroredStrategy strategy;
    std::printf("%s", strategy.explain().c_str());
    const auto scope = strategy.scope();
    const keras::Sequential model = convnet(steps);
    std::printf("%s\n", model.summary().c_str());
    const auto start = std::chrono::steady_clock::now();
    model.fit(pictures(train.x.rows(0, rows)), train.y.rows(0, rows),
              {.batch_size = kBatch, .epochs = epochs});
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;

    const auto place = folder.empty() ? new_folder() : std::filesystem::path(folder);
    const auto saved = td::train::Checkpoint({{"model", model}}).save(place / "ckpt");
    const keras::Sequential restored = convnet(steps);
    td::train::Checkpoint({{"model", restored}}).restore(saved).assert_consumed();
    std::printf("saved at %s and restored\n", saved.c_str());
    const keras::Logs logs = restored.evaluate(pictures(test.x), test.y, {.batch_size = kBatch});
    std::printf("test accuracy %.4f, trained on %.0f pictures/s\n", logs.at("accuracy"),
                static_cast<double>(rows * epochs) / taken.count());
  });
}
