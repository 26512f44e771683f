/// Input pipelines: what a batch costs before anything is computed with it.
#include "bench.h"
#include "device/logical_device.h"
#include "tandem/tandem.h"

namespace tandem::bench {
namespace {

constexpr int64_t kBatch = 128;

/// Fashion-MNIST as a classifier takes it: float32[60000,784] in [0, 1], and labels.
keras::datasets::Examples examples() {
  const auto train = keras::datasets::fashion_mnist::load_data().train;
  const int64_t rows = train.x.shape()[0];
  const Tensor pixels = cast(reshape(train.x, {rows, 784}), DType::float32) / 255.0;
  return {pixels, train.y};
}

/// The mean over all batches of an epoch of pixels and labels: the order does not matter to it.
double checksum(const data::Dataset& batches) {
  double total = 0;
  for (const auto& [x, y] : batches.as<std::pair<Tensor, Tensor>>()) {
    total += reduce_sum(cast(x, DType::float64)).item<double>() / 784;
    total += reduce_sum(cast(y, DType::float64)).item<double>();
  }
  return total / 60'000;
}

}  // namespace

void input() {
  devices::reset_devices();
  const auto [x, y] = examples();
  const int64_t rows = x.shape()[0];
  const auto batches =
      data::Dataset::from_tensor_slices(x, y).shuffle(rows).batch(kBatch).prefetch(2);
  report("input.loss", checksum(batches), "loss");
  const double epoch = best_seconds(
      [&] {
        auto iterator = batches.iterator();
        while (iterator.next()) {
        }
      },
      10, 0.1);
  report("input", epoch / static_cast<double>(rows) * 1e6, "us");
}

}  // namespace tandem::bench
