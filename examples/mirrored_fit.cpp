/// Article 000, example 1: `fit` of a small classifier.
///
///   mirrored_fit [--epochs 2]
#include "program.h"
#include "tandem/keras/datasets.h"
#include "tandem/keras/layers.h"
#include "tandem/keras/model.h"
#include "tandem/keras/utils.h"

using namespace tandem;  // NOLINT: an example
namespace layers = keras::layers;

int main(int count, char** words) {
  return example::run([&] {
    random::set_seed(1);
    const keras::Sequential model({
        layers::Dense(10, {.activation = "relu", .input_shape = {784}}),
        layers::Dense(10),
    });
    const keras::optimizers::Adam optimizer(0.01);
    const keras::losses::CategoricalCrossentropy loss_fn({.from_logits = true});
    model.compile({.optimizer = optimizer, .loss = loss_fn, .metrics = {"accuracy"}});

    const auto [train, test] = keras::datasets::fashion_mnist::load_data();
    const auto prepared = [](const Tensor& images) {
      return cast(reshape(images, {-1, 784}), DType::float32) / 255.0;
    };
    const Tensor y_train = keras::utils::to_categorical(train.y, 10);
    model.fit(prepared(train.x), y_train,
              {.batch_size = 128, .epochs = example::flag(count, words, "--epochs", 2)});
    model.evaluate(prepared(test.x), keras::utils::to_categorical(test.y, 10), {.batch_size = 128});
  });
}
