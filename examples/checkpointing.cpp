/// A training loop that saves a checkpoint after each epoch, and when it is started again goes on
/// from the last.
#include "program.h"

namespace td = tandem;
namespace keras = td::keras;
namespace layers = keras::layers;
using td::Tensor;

int main(int count, char** words) {
  example::Flags flags(
      "Trains a small classifier on Fashion-MNIST, goes on where it was when run again");
  example::ReplicaDevices replicas;
  int epochs = 2;
  int64_t rows = 60'000;
  replicas.add_to(flags);
  flags.add("--epochs", epochs, "Passes over the data in this run");
  flags.add("--rows", rows, "Pictures to learn from");
  std::string folder = "training_checkpoints";
  flags.add("--folder", folder, "Where the checkpoints are");
  return flags.run(count, words, [&] {
    replicas.configure();
    const td::distribute::MirroredStrategy strategy;

    const auto scope = strategy.scope();
    const keras::Sequential model({
        layers::Dense(10, {.activation = "relu", .input_shape = {784}}),
        layers::Dense(10),
    });
    const keras::optimizers::Adam optimizer(0.01);
    const keras::losses::CategoricalCrossentropy loss_fn({.from_logits = true});

    const std::filesystem::path checkpoint_dir = folder;
    const td::train::Checkpoint checkpoint({{"optimizer", optimizer}, {"model", model}});
    const auto last = td::train::latest_checkpoint(checkpoint_dir);
    if (const auto path = checkpoint.restore(last, {.fall_back = true}).path()) {
      std::printf("Goes on from %s\n", path->c_str());
    }

    const auto [train, test] = example::flat_fashion_mnist(rows);
    const auto dataset = strategy.experimental_distribute_dataset(
        td::data::Dataset::from_tensor_slices(train.x, train.y).batch(128));

    const auto train_step = td::function([&](const Tensor& inputs, const Tensor& labels) {
      td::GradientTape tape;
      const Tensor predictions = model(inputs, {.training = true});
      const Tensor loss = loss_fn(labels, predictions);
      const td::Variables weights = model.trainable_weights();
      optimizer.apply_gradients(tape.gradient(loss, weights), weights);
      return loss;
    });

    const auto first = static_cast<int>(checkpoint.save_counter());  // One was saved per epoch.
    for (int epoch = first; epoch < first + epochs; ++epoch) {
      for (const auto& batch : dataset) {
        const auto losses = strategy.run(train_step, batch);
        const Tensor loss = strategy.reduce(td::distribute::ReduceOp::sum, losses);
        std::printf("Epoch: %d, Loss: %f\n", epoch, loss.item<float>());
      }
      const auto path = checkpoint.save(checkpoint_dir / "ckpt");
      std::printf("Checkpoint saved at %s\n", path.c_str());
    }

    const auto latest = td::train::latest_checkpoint(checkpoint_dir);
    checkpoint.restore(latest).assert_consumed();
    std::printf("Checkpoint restored.\n");
  });
}
