/// Regression with a network that makes its weights for the data it first sees, trained with
/// everything by name.
#include "program.h"

namespace td = tandem;
namespace keras = td::keras;
namespace layers = keras::layers;
using td::Tensor;

int main(int count, char** words) {
  example::Flags flags("Trains a network to follow a smooth function of 20 numbers");
  int cpus = 2;
  int epochs = 10;
  int64_t rows = 2000;
  flags.add("--logical-cpus", cpus, "Devices to cut the CPU into");
  flags.add("--epochs", epochs, "Passes over the data");
  flags.add("--rows", rows, "Examples to learn from");
  return flags.run(count, words, [&] {
    example::use_logical_cpus(cpus);
    td::random::set_seed(1);
    const td::distribute::MirroredStrategy strategy;
    const auto scope = strategy.scope();
    const Tensor x_train = td::random_normal({rows, 20});
    const Tensor y_train = td::sin(td::matmul(x_train, td::random_normal({20, 10}, 0, 0.3)));

    const keras::Sequential model({
        layers::Dense(1024, {.activation = "relu"}),
        layers::Dense(10),
    });
    model.compile({.optimizer = "adam", .loss = "mse", .metrics = {"mae"}});
    model.fit(x_train, y_train, {.epochs = epochs});
    std::printf("%s", model.summary().c_str());
  });
}
