/// Training while another process spins, held on one core or free to move: the median step, and
/// what it is of the undisturbed one.
#include <optional>
#include <vector>

#include "bench.h"
#include "device/logical_device.h"
#include "harness/classifier.h"
#include "harness/transformer.h"
#include "support/process.h"
#include "support/seed_model.h"

namespace tandem::bench {
namespace {

constexpr int64_t kBatch = 128;
constexpr int kLossStep = 20;

/// It lasts as long as the peers are measured (bench/peers/busy.py). At first a spinning process
/// and our threads still find their places.
constexpr double kSettleSeconds = 0.5;
constexpr double kSeconds = 2;

/// Seconds of a call: the median over calls that take so long together.
template <class F>
double median_seconds(const F& call) {
  for (const auto start = Clock::now(); seconds_since(start) < kSettleSeconds;) call();
  std::vector<double> times;
  for (const auto start = Clock::now(); seconds_since(start) < kSeconds;) {
    const auto begin = Clock::now();
    call();
    times.push_back(seconds_since(begin));
  }
  const auto middle = times.begin() + static_cast<int64_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
}

/// `call` makes `steps` steps.
template <class F>
void measure(const std::string& name, double loss, const F& call, double steps = 1) {
  const double alone = median_seconds(call) / steps;
  const auto busy = [&](const char* how, std::optional<int> core) {
    const Spinner spinner(core);
    const double seconds = median_seconds(call) / steps;
    const std::string figure = name + "_" + how;
    report(figure + ".busy.loss", loss, "loss");
    report(figure + ".busy", seconds * 1e6, "us");
    report(figure + ".alone", alone * 1e6, "us");
    report(figure, seconds / alone, "x");
  };
  busy("pinned", first_core());
  busy("free", std::nullopt);
}

}  // namespace

void busy_mlp10() {
  devices::reset_devices();
  const harness::Classifier<float> model({784, 10, 10}, 0.01);
  const auto step = model.compiled_step();
  const Tensor x = harness::features<float>(kBatch);
  const Tensor y = harness::labels<float>(kBatch);
  float loss = 0;
  for (int i = 0; i < kLossStep; ++i) loss = step(x, y).item<float>();
  measure("busy_mlp10", loss, [&] { step(x, y); });
}

/// Its calls are epochs, so the figure is the median epoch's mean step.
void busy_seed_fit() {
  constexpr int64_t kRows = 60'000;
  constexpr int64_t kSteps = (kRows + kBatch - 1) / kBatch;
  devices::reset_devices();
  const keras::Sequential model = seed_classifier();
  const Tensor x = harness::features<float>(kRows);
  const Tensor y = harness::labels<float>(kRows);
  const double loss = first_loss(model, x, y);
  const auto epoch = [&] {
    model.fit(x, y, {.batch_size = kBatch, .verbose = keras::Verbose::silent});
  };
  measure("busy_seed_fit", loss, epoch, static_cast<double>(kSteps));
}

void busy_gpt() {
  devices::reset_devices();
  const harness::Transformer<float> model;
  const auto step = model.compiled_step();
  const harness::Texts texts = harness::texts(8, model.sizes);
  float loss = 0;
  for (int i = 0; i < kLossStep; ++i) loss = step(texts.read, texts.next).item<float>();
  measure("busy_gpt", loss, [&] { step(texts.read, texts.next); });
}

}  // namespace tandem::bench
