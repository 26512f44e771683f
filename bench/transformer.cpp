/// A small GPT's training step, compiled: its time, and the memory that it takes.
#include "harness/transformer.h"

#include <fstream>

#include "bench.h"
#include "device/logical_device.h"
#include "support/process.h"

namespace tandem::bench {
namespace {

using harness::Transformer;

constexpr int64_t kTexts = 8;
constexpr int kLossStep = 20;

constexpr double kMegabyte = 1 << 20;

/// The most memory that this process has held so far, in megabytes.
double peak_resident() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes * 1024 / kMegabyte;
  }
  throw NotFound("peak_memory: /proc/self/status has no VmHWM");
}

}  // namespace

void gpt_block() {
  devices::reset_devices();
  const Transformer<float> model;
  const auto step = model.compiled_step();
  const harness::Texts texts = harness::texts(kTexts, model.sizes);
  const auto train = [&] { return step(texts.read, texts.next); };
  float loss = 0;
  for (int i = 0; i < kLossStep; ++i) loss = train().item<float>();
  report("gpt_block.loss", loss, "loss");
  report("gpt_block", best_seconds(train, 16, 0.3) * 1e6, "us");  // Loops as long as the peers'.
}

void peak_memory() { run_self("--measure-peak-memory"); }

/// Growth since before the model was made, and what of it was planned: the weights with their two
/// moments, and the step.
void measure_peak_memory() {
  const double before = peak_resident();
  const Transformer<float> model;
  const auto step = model.compiled_step();
  const auto [read, next] = harness::texts(kTexts, model.sizes);
  float loss = 0;
  for (int i = 0; i < kLossStep; ++i) loss = step(read, next).item<float>();
  report("peak_memory.loss", loss, "loss");
  report("peak_memory", peak_resident() - before, "MB");
  double weights = 0;
  for (const Variable& variable : model.variables) {
    weights += 3.0 * sizeof(float) * static_cast<double>(variable.shape().count());
  }
  report("peak_memory.weights", weights / kMegabyte, "MB");
  const auto planned = static_cast<double>(step.memory_plan(kTexts).devices[0].bytes());
  report("peak_memory.step", planned / kMegabyte, "MB");
}

}  // namespace tandem::bench
