/// A small GPT's training step, compiled: its time, and the memory that it takes.
#include "harness/transformer.h"

#include "bench.h"
#include "device/device.h"

namespace tandem::bench {
namespace {

using harness::Transformer;

constexpr int64_t kTexts = 8;
constexpr int kLossStep = 20;

}  // namespace

void gpt_block() {
  devices::reset_devices();
  const Transformer<float> model;
  const auto step = model.compiled_step();
  const auto [read, next] = harness::texts(kTexts, model.sizes);
  float loss = 0;
  for (int i = 0; i < kLossStep; ++i) loss = step(read, next).item<float>();
  report("gpt_block.loss", loss, "loss");
  report("gpt_block", best_seconds([&] { step(read, next); }, 10, 0.5) * 1e6, "us");
}

}  // namespace tandem::bench
