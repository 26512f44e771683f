/// Random numbers and dropout, eager, on the whole CPU. In the place of a loss stands a mean that
/// says what was drawn, which peers compare.
#include "bench.h"
#include "device/logical_device.h"
#include "tandem/tandem.h"

namespace tandem::bench {
namespace {

constexpr int64_t kSide = 4096;

template <class F>
void measure(const std::string& name, F draw, bool squared = false) {
  const Tensor drawn = cast(draw(), DType::float64);
  report(name + ".loss", reduce_mean(squared ? drawn * drawn : drawn).template item<double>(),
         "loss");
  report(name, best_seconds([&] { draw(); }) * 1e6, "us");
}

}  // namespace

void random_normal_16M() {
  devices::reset_devices();
  measure(
      "random_normal_16M",
      [] {
        return random_normal({kSide, kSide});
      },
      true);
}

void random_uniform_16M() {
  devices::reset_devices();
  measure("random_uniform_16M", [] { return random_uniform({kSide, kSide}); });
}

void dropout_16M() {
  devices::reset_devices();
  const Tensor x = fill({kSide, kSide}, 1);
  measure("dropout_16M", [&] { return dropout(x, 0.1); });
}

}  // namespace tandem::bench
