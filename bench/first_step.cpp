/// The first call of a compiled step: trace, compilation and run, in a process of its own, so that
/// nothing is prepared before.
#include "bench.h"
#include "harness/classifier.h"
#include "harness/convnet.h"
#include "harness/transformer.h"
#include "support/process.h"

namespace tandem::bench {
namespace {

template <class Model>
void measure(const char* name, const Model& model, const Tensor& x, const Tensor& y) {
  const auto step = model.compiled_step();
  const auto start = Clock::now();
  const float loss = step(x, y).template item<float>();
  report(name, seconds_since(start) * 1e3, "ms");
  if (!(loss > 0)) throw DataLoss(std::string(name) + ": the loss is not a positive number");
}

}  // namespace

void first_step() {
  for (const char* option : {"--first-step-mlp10", "--first-step-convnet", "--first-step-gpt"}) {
    run_self(option);
  }
}

void measure_first_mlp10() {
  const harness::Classifier<float> model({784, 10, 10}, 0.01);
  measure("first_step_mlp10", model, harness::features<float>(128), harness::labels<float>(128));
}

void measure_first_convnet() {
  measure("first_step_convnet", harness::Convnet<float>(), harness::images<float>(128),
          harness::classes(128));
}

void measure_first_gpt() {
  const harness::Transformer<float> model;
  const auto [read, next] = harness::texts(8, model.sizes);
  measure("first_step_gpt", model, read, next);
}

}  // namespace tandem::bench
