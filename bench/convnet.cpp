/// A whole training step of a convolutional network, compiled, on the whole CPU.
#include "harness/convnet.h"

#include "bench.h"
#include "device/logical_device.h"

namespace tandem::bench {

void convnet() {
  constexpr int64_t kBatch = 128;
  devices::reset_devices();
  const harness::Convnet<float> model;
  const auto step = model.compiled_step();
  const Tensor x = harness::images<float>(kBatch);
  const Tensor y = harness::classes(kBatch);
  float loss = 0;
  for (int i = 0; i < 20; ++i) loss = step(x, y).item<float>();
  report("convnet.loss", loss, "loss");
  report("convnet", best_seconds([&] { step(x, y); }, 10, 0.3) * 1e6, "us");
}

}  // namespace tandem::bench
