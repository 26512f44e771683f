/// Training steps and parts of them on an OpenCL device. Without a GPU that is PoCL, a CPU, so the
/// figures are held against other programs on the same device, or against our own CPU.
#include <algorithm>
#include <map>
#include <string>

#include "bench.h"
#include "device/logical_device.h"
#include "harness/classifier.h"
#include "harness/convnet.h"
#include "harness/transformer.h"
#include "profile/session.h"
#include "support/clblast_peer.h"
#include "support/handwritten_opencl.h"
#include "support/process.h"

namespace tandem::bench {
namespace {

using harness::Classifier;

constexpr int64_t kBatch = 128;

void use_gpus(int count) {
  devices::reset_devices();
  config::set_opencl_cpus(true);
  const auto gpus = config::list_physical_devices("GPU");
  if (gpus.empty()) throw NotFound("gpu: there is no device of OpenCL; install pocl-opencl-icd");
  if (count > static_cast<int>(gpus.size())) {
    const auto parts = static_cast<size_t>(count);
    config::set_logical_device_configuration(gpus[0],
                                             std::vector<config::LogicalDeviceConfiguration>(
                                                 parts, {.memory_limit = gpus[0].memory / parts}));
  }
}

/// Waits until the device has done what it was asked.
void finish() { devices::placement_order()[0]->queue().record().wait(std::chrono::seconds(60)); }

/// Steps in a row, with the device never idle: the seconds of one.
template <class Step>
double seconds_per_step(const Step& step, int steps) {
  return best_seconds(
             [&] {
               for (int i = 0; i < steps; ++i) step();
               finish();
             },
             10, 0.1) /
         steps;
}

/// The compiled step against the one written by hand, by turns.
void against_handwritten(const std::string& name, const std::vector<int64_t>& sizes, double rate,
                         int steps) {
  use_gpus(1);
  const Classifier<float> model(sizes, rate);
  const auto step = model.compiled_step();
  const Tensor x = copy_to_device(harness::features<float>(kBatch), "/GPU:0");
  const Tensor y = copy_to_device(harness::labels<float>(kBatch), "/GPU:0");
  HandwrittenStep by_hand(sizes, rate);
  float loss = 0;
  for (int i = 0; i < 20; ++i) {
    loss = step(x, y).item<float>();
    by_hand.run();
  }
  report(name + ".loss", loss, "loss");
  report(name + ".handwritten_loss", by_hand.loss(), "loss");
  const auto ours = [&] {
    for (int i = 0; i < steps; ++i) step(x, y);
    finish();
  };
  const auto theirs = [&] {
    for (int i = 0; i < steps; ++i) by_hand.run();
    by_hand.loss();
  };
  const auto best = best_by_turns(ours, theirs, 10);
  report(name + ".tandem", best.first / steps * 1e6, "us");
  report(name + ".handwritten", best.second / steps * 1e6, "us");
  report(name, best.first / best.second, "x");
}

/// The same step on the device and on the CPU.
template <class Model>
void against_cpu(const std::string& name, const std::function<Model()>& make, const Tensor& x,
                 const Tensor& y) {
  const auto measure = [&](const char* where) {
    const Model model = make();
    const auto step = model.compiled_step();
    float loss = 0;
    for (int i = 0; i < 5; ++i) loss = step(x, y).template item<float>();
    report(name + "." + where + "_loss", loss, "loss");
    const double seconds = best_seconds([&] { step(x, y).template item<float>(); }, 5, 0.3);
    report(name + "." + where, seconds * 1e6, "us");
    return seconds;
  };
  use_gpus(1);
  const double gpu = measure("gpu");
  devices::reset_devices();
  report(name, gpu / measure("cpu"), "x");
}

/// "for 128 rows, 13 instructions, .."
int instructions_in(const std::string& program) {
  const size_t end = program.find(" instructions");
  if (end == std::string::npos) throw NotFound("gpu_issue: the program does not tell its length");
  return std::stoi(program.substr(program.rfind(' ', end - 1)));
}

}  // namespace

void gpu_mlp10() { against_handwritten("gpu_mlp10", {784, 10, 10}, 0.01, 50); }
void gpu_mlp1024() { against_handwritten("gpu_mlp1024", {784, 1024, 1024, 10}, 0.0001, 4); }

void gpu_convnet() {
  const auto x = harness::images<float>(kBatch);
  const auto y = harness::classes(kBatch);
  against_cpu<harness::Convnet<float>>(
      "gpu_convnet", [] { return harness::Convnet<float>(); }, x, y);
}

void gpu_gpt_block() {
  const auto texts = harness::texts(8, harness::Transformer<float>().sizes);
  against_cpu<harness::Transformer<float>>(
      "gpu_gpt_block", [] { return harness::Transformer<float>(); }, texts.read, texts.next);
}

void gpu_matmul1024() {
  use_gpus(1);
  constexpr int64_t kSize = 1024;
  const auto scope = device("/GPU:0");
  const Tensor a = copy_to_device(harness::features<float>(kSize, kSize), "/GPU:0");
  const double own = seconds_per_step([&] { matmul(a, a); }, 4);
  report("gpu_matmul1024.tandem", own * 1e6, "us");
  const double theirs = clblast_seconds(kSize);
  report("gpu_matmul1024.clblast", theirs * 1e6, "us");
  report("gpu_matmul1024", own / theirs, "x");
}

/// The time that the host needs to issue a step, by its number of instructions: behind another
/// step, as in training, and to an idle device, whose threads PoCL wakes with the first command and
/// which then want the locks that the host needs. The step written by hand is issued to an idle
/// device. The device is not waited for while it is measured.
void gpu_issue() {
  use_gpus(1);
  const Classifier<float> model({784, 10, 10}, 0.01);
  const auto step = model.compiled_step();
  const Tensor x = copy_to_device(harness::features<float>(kBatch), "/GPU:0");
  const Tensor y = copy_to_device(harness::labels<float>(kBatch), "/GPU:0");
  for (int i = 0; i < 20; ++i) step(x, y);
  const int instructions = instructions_in(step.explain());
  const auto best_of = [&](const auto& wait, const auto& issue) {
    double best = 1e30;
    for (int i = 0; i < 500; ++i) {
      wait();
      const auto start = Clock::now();
      issue();
      best = std::min(best, seconds_since(start));
    }
    return best / instructions * 1e6;
  };
  report("gpu_issue.instructions", instructions, "");
  const auto begin_one = [&] {
    finish();
    step(x, y);
  };
  report("gpu_issue", best_of(begin_one, [&] { step(x, y); }), "us");
  report("gpu_issue.idle_device", best_of(finish, [&] { step(x, y); }), "us");
  HandwrittenStep by_hand({784, 10, 10}, 0.01);
  for (int i = 0; i < 20; ++i) by_hand.run();
  report("gpu_issue.handwritten", best_of([&] { by_hand.loss(); }, [&] { by_hand.run(); }), "us");
}

namespace {

/// The part of a step's sums of gradients that is made before the backward pass has ended, by each
/// device's own clock. The last bucket's cannot be: it begins there.
double hidden_part(const profile::Recorded& recorded) {
  constexpr std::string_view kExchange = " exchange";
  double all = 0;
  double hidden = 0;
  std::map<std::string_view, int64_t> backward_ends;  // What comes before the update, by row.
  for (const auto& row : recorded.rows) {
    int64_t& end = backward_ends[row->name];
    for (const profile::Interval& interval : row->intervals) {
      if (std::string_view(interval.name).ends_with("_update")) break;
      if (interval.kind == profile::Activity::compute) end = std::max(end, interval.end_ns);
    }
  }
  for (const auto& row : recorded.rows) {
    if (!row->name.ends_with(kExchange)) continue;
    const std::string_view device(row->name.data(), row->name.size() - kExchange.size());
    for (const profile::Interval& interval : row->intervals) {
      if (interval.kind == profile::Activity::wait) continue;
      const int64_t end = std::min(interval.end_ns, backward_ends.at(device));
      all += static_cast<double>(interval.end_ns - interval.begin_ns);
      hidden += static_cast<double>(std::max<int64_t>(0, end - interval.begin_ns));
    }
  }
  if (all == 0) throw NotFound("gpu_overlap: no gradients were summed on a queue of their own");
  return hidden / all;
}

}  // namespace

/// Two GPUs, 8 dense layers of 1 MB each.
void gpu_overlap() {
  use_gpus(2);
  const distribute::MirroredStrategy strategy({"/GPU:0", "/GPU:1"});
  const auto scope = strategy.scope();
  const Classifier<float> model({512, 512, 512, 512, 512, 512, 512, 512, 512, 10}, 0.0001);
  const auto step = model.compiled_step();
  const auto x = strategy.split(harness::features<float>(2 * kBatch, 512));
  const auto y = strategy.split(harness::labels<float>(2 * kBatch));
  for (int i = 0; i < 5; ++i) strategy.run(step, x, y);
  std::vector<double> parts;
  for (int i = 0; i < 15; ++i) {
    for (const auto& device : devices::all_devices()) device->finish(std::chrono::seconds(60));
    profile::start();
    strategy.run(step, x, y);
    parts.push_back(hidden_part(profile::finish()));
  }
  std::ranges::sort(parts);
  report("gpu_overlap.least", 100 * parts.front(), "%");
  report("gpu_overlap", 100 * parts[parts.size() / 2], "%");
}

void gpu_first_step() {
  report("gpu_first_step", best_seconds([] { run_self("--gpu-first-step"); }, 5, 0.1) * 1e3, "ms");
}

void measure_gpu_first_step() {
  config::set_opencl_cpus(true);
  const Classifier<float> model({784, 10, 10}, 0.01);
  const auto step = model.compiled_step();
  const float loss =
      step(harness::features<float>(kBatch), harness::labels<float>(kBatch)).item<float>();
  if (!(loss > 0)) throw DataLoss("gpu_first_step: the loss is not a positive number");
}

}  // namespace tandem::bench
