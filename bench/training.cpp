/// Whole training steps, compiled, on one device and on replicas.
#include "bench.h"
#include "device/logical_device.h"
#include "harness/classifier.h"

namespace tandem::bench {
namespace {

using harness::Classifier;

struct MlpSettings {
  std::vector<int64_t> sizes;
  double learning_rate;
};

const MlpSettings kMlp10{{784, 10, 10}, 0.01};
const MlpSettings kMlp1024{{784, 1024, 1024, 10}, 0.0001};
constexpr int64_t kBatch = 128;

void use_cpus(int count, int threads_each) {
  devices::reset_devices();
  config::set_logical_cpus(
      std::vector<config::LogicalCpu>(static_cast<size_t>(count), {.threads = threads_each}));
}

/// Loops of 0.05 s: 1.5 s in all, as long as each way of a peer is measured (bench/peers/data.py).
constexpr int kLoops = 30;

/// Steps on one batch, on the whole CPU.
void single_device(const std::string& name, const MlpSettings& config) {
  devices::reset_devices();
  const Classifier<float> model(config.sizes, config.learning_rate);
  const auto step = model.compiled_step();
  const Tensor x = harness::features<float>(kBatch);
  const Tensor y = harness::labels<float>(kBatch);
  float loss = 0;
  for (int i = 0; i < 20; ++i) loss = step(x, y).item<float>();
  report(name + ".loss", loss, "loss");
  report(name, best_seconds([&] { step(x, y); }, kLoops) * 1e6, "us");
}

/// Seconds of a step on one batch split over `replicas` logical CPUs of one thread.
double mirrored_seconds(const MlpSettings& config, int replicas, const std::string& loss_name) {
  use_cpus(replicas, 1);
  const distribute::MirroredStrategy strategy;
  const auto scope = strategy.scope();
  const Classifier<float> model(config.sizes, config.learning_rate);
  const auto step = model.compiled_step();
  const auto x = strategy.split(harness::features<float>(kBatch));
  const auto y = strategy.split(harness::labels<float>(kBatch));
  float loss = 0;
  for (int i = 0; i < 20; ++i) {
    loss = strategy.reduce(distribute::ReduceOp::sum, strategy.run(step, x, y)).item<float>();
  }
  report(loss_name, loss, "loss");
  return best_seconds([&] { strategy.run(step, x, y); }, kLoops);
}

}  // namespace

void mlp10() { single_device("mlp10", kMlp10); }
void mlp1024() { single_device("mlp1024", kMlp1024); }

void mirrored_mlp1024() {
  report("mirrored_mlp1024", mirrored_seconds(kMlp1024, 2, "mirrored_mlp1024.loss") * 1e6, "us");
}

/// A training loop of one's own on two replicas: an epoch over 60,000 rows in batches of 128, the
/// last of 96.
void seed_mirrored() {
  constexpr int64_t kRows = 60'000;
  use_cpus(2, 1);
  const distribute::MirroredStrategy strategy;
  const auto scope = strategy.scope();
  const Classifier<float> model(kMlp10.sizes, kMlp10.learning_rate);
  const auto step = model.compiled_step();
  const Tensor x = harness::features<float>(kRows);
  const Tensor y = harness::labels<float>(kRows);
  const int64_t steps = (kRows + kBatch - 1) / kBatch;
  const auto train_on = [&](int64_t s) {
    const int64_t begin = s * kBatch;
    const int64_t end = std::min(begin + kBatch, kRows);
    return strategy.run(step, strategy.split(x.rows(begin, end)),
                        strategy.split(y.rows(begin, end)));
  };
  distribute::PerReplica loss;
  for (int64_t s = 0; s < 20; ++s) loss = train_on(s);
  report("seed_mirrored.loss", strategy.reduce(distribute::ReduceOp::sum, loss).item<float>(),
         "loss");
  const double epoch = best_seconds(
      [&] {
        for (int64_t s = 0; s < steps; ++s) train_on(s);
      },
      10, 0.01);
  report("seed_mirrored", epoch / static_cast<double>(steps) * 1e6, "us");
}

void train_one_step() {
  const Classifier<float> model;
  const auto step = model.compiled_step();
  const float loss =
      step(harness::features<float>(kBatch), harness::labels<float>(kBatch)).item<float>();
  if (!(loss > 0)) throw FailedPrecondition("startup: the loss is not positive");
}

}  // namespace tandem::bench
