/// Article 002, example 3: a network that makes its weights for the data it first sees, trained
/// with everything by name.
///
///   regression [--logical-cpus 2] [--epochs 10] [--rows 2000]
#include "program.h"

namespace td = tandem;
namespace keras = td::keras;
namespace layers = keras::layers;
using td::Tensor;

int main(int count, char** words) {
  return example::run([&] {
    example::use_logical_cpus(count, words, 2);
    td::random::set_seed(1);
    const td::distribute::MirroredStrategy strategy;
    const auto scope = strategy.scope();
    const int64_t rows = example::flag(count, words, "--rows", 2000);
    const Tensor x_train = td::random_normal({rows, 20});
    const Tensor y_train = td::sin(td::matmul(x_train, td::random_normal({20, 10}, 0, 0.3)));

    const keras::Sequential model({
        layers::Dense(1024, {.activation = "relu"}),
        layers::Dense(10),
    });
    model.compile({.optimizer = "adam", .loss = "mse", .metrics = {"mae"}});
    model.fit(x_train, y_train, {.epochs = example::flag(count, words, "--epochs", 10)});
    std::printf("%s", model.summary().c_str());
  });
}
