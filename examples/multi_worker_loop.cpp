/// A training loop of one's own under MultiWorkerMirroredStrategy: the program of
/// custom_training_loop with another strategy. Its data set is dealt to the processes by rows: all
/// of them together see the batches that one device would see.
#include "program.h"

namespace td = tandem;
namespace keras = td::keras;
namespace layers = keras::layers;
using td::Tensor;

int main(int count, char** words) {
  example::Flags flags("Trains a small classifier on Fashion-MNIST in a loop of its own");
  example::ReplicaDevices replicas;
  int epochs = 2;
  int64_t rows = 60'000;
  replicas.add_to(flags);
  flags.add("--epochs", epochs, "Passes over the data");
  flags.add("--rows", rows, "Pictures to learn from");
  return flags.run(count, words, [&] {
    replicas.configure();
    const td::distribute::MultiWorkerMirroredStrategy strategy;
    if (strategy.is_chief())
      std::printf("Number of devices: %d\n", strategy.num_replicas_in_sync());

    const auto scope = strategy.scope();
    const keras::Sequential model({
        layers::Dense(10, {.activation = "relu", .input_shape = {784}}),
        layers::Dense(10),
    });
    const keras::optimizers::Adam optimizer(0.01);
    const keras::losses::CategoricalCrossentropy loss_fn({.from_logits = true});

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

    for (int epoch = 0; epoch < epochs; ++epoch) {
      for (const auto& batch : dataset) {
        const auto losses = strategy.run(train_step, batch);
        const Tensor loss = strategy.reduce(td::distribute::ReduceOp::sum, losses);
        if (strategy.is_chief()) std::printf("Epoch: %d, Loss: %f\n", epoch, loss.item<float>());
      }
    }
  });
}
