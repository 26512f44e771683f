/// Article 000, example 2: a custom training loop under MirroredStrategy.
///
///   custom_training_loop [--logical-cpus 2] [--epochs 2]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <vector>

#include "program.h"

using namespace tandem;  // NOLINT: an example
using distribute::ReduceOp;

namespace {

/// Ten noisy prototypes of 28x28 pixels, 60,000 times: a data set that needs no file.
struct Samples {
  Tensor images;  // [60000, 784]
  Tensor labels;  // [60000, 10], one-hot
};

Samples make_samples(int64_t rows) {
  const auto prototypes = random_uniform({10, 784}, 0, 1, {.seed = 1}).to_vector<float>();
  const auto noise = random_uniform({rows, 784}, 0, 1, {.seed = 2}).to_vector<float>();
  std::vector<float> images(noise.size());
  std::vector<float> labels(static_cast<size_t>(rows) * 10);
  for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
    const size_t kind = r * 7 % 10;
    labels[r * 10 + kind] = 1;
    for (size_t i = 0; i < 784; ++i) {
      images[r * 784 + i] = 0.3f * prototypes[kind * 784 + i] + 0.7f * noise[r * 784 + i] - 0.5f;
    }
  }
  return {Tensor::from(images, {rows, 784}), Tensor::from(labels, {rows, 10})};
}

Variable kernel(int64_t in, int64_t out, uint64_t seed) {
  const double limit = std::sqrt(6.0 / static_cast<double>(in + out));  // Glorot
  return Variable(random_uniform({in, out}, -limit, limit, {.seed = seed}), {.name = "kernel"});
}

Variable bias(int64_t size) { return Variable(fill({size}, 0), {.name = "bias"}); }

void run(int epochs) {
  const distribute::MirroredStrategy strategy;
  std::printf("Number of devices: %d\n", strategy.num_replicas_in_sync());

  const auto scope = strategy.scope();
  const Variables model = {kernel(784, 10, 11), bias(10), kernel(10, 10, 12), bias(10)};
  const keras::optimizers::Adam optimizer(0.01);

  const auto train_step = function([&](const Tensor& inputs, const Tensor& labels) {
    GradientTape tape;
    const Tensor hidden = relu(matmul(inputs, model[0]) + model[1]);
    const Tensor predictions = matmul(hidden, model[2]) + model[3];
    const Tensor loss =
        compute_average_loss(softmax_cross_entropy_with_logits(labels, predictions));
    optimizer.apply_gradients(tape.gradient(loss, model), model);
    return loss;
  });

  const int64_t rows = 60'000;
  const int64_t batch = 128;
  const Samples samples = make_samples(rows);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    int64_t steps = 0;
    for (int64_t begin = 0; begin < rows; begin += batch, ++steps) {
      const int64_t end = std::min(begin + batch, rows);
      const auto loss = strategy.run(train_step, strategy.split(samples.images.rows(begin, end)),
                                     strategy.split(samples.labels.rows(begin, end)));
      if (steps % 100 == 0 || end == rows) {
        std::printf("Epoch: %d, Step: %ld, Loss: %.4f\n", epoch, static_cast<long>(steps),
                    strategy.reduce(ReduceOp::sum, loss).item<float>());
      }
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    std::printf("Epoch: %d, %ld steps of %ld rows in %.3f s (%.0f us/step)\n", epoch,
                static_cast<long>(steps), static_cast<long>(batch), taken.count(),
                taken.count() / static_cast<double>(steps) * 1e6);
  }
}

}  // namespace

int main(int count, char** words) {
  return example::run([&] {
    const int cpus = example::flag(count, words, "--logical-cpus", 2);
    config::set_logical_cpus(
        std::vector<config::LogicalCpu>(static_cast<size_t>(std::max(cpus, 0))));
    run(example::flag(count, words, "--epochs", 2));
  });
}
