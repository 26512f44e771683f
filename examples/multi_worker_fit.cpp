/// `fit` under MultiWorkerMirroredStrategy: the program of mirrored_fit with another strategy.
/// Started several times by a launcher, its processes train one model together; started alone, it
/// trains by itself. The chief prints.
#include "program.h"

namespace td = tandem;
namespace keras = td::keras;
namespace layers = keras::layers;

int main(int count, char** words) {
  example::Flags flags("Trains a small classifier on Fashion-MNIST, in several processes at once");
  example::ReplicaDevices replicas;
  int epochs = 2;
  int64_t seed = 3;
  replicas.add_to(flags);
  flags.add("--epochs", epochs, "Passes over the data");
  flags.add("--seed", seed, "Of the weights and of the order of the examples", 0);
  return flags.run(count, words, [&] {
    replicas.configure();
    td::random::set_seed(static_cast<uint64_t>(seed));
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
    model.compile({.optimizer = optimizer, .loss = loss_fn, .metrics = {"accuracy"}});

    const auto [train, test] = example::flat_fashion_mnist();
    model.fit(train.x, train.y, {.batch_size = 128, .epochs = epochs});
    model.evaluate(test.x, test.y, {.batch_size = 128});
  });
}
