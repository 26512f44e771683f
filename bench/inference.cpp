/// Answers for one row: from several threads of an application, and op by op.
#include <atomic>
#include <thread>

#include "bench.h"
#include "device/logical_device.h"
#include "harness/classifier.h"
#include "tandem/keras/layers.h"
#include "tandem/keras/model.h"

namespace tandem::bench {
namespace {

namespace layers = keras::layers;

/// 784-hidden-10 with the weights that all frameworks begin with.
keras::Sequential model_of(int64_t hidden) {
  keras::Sequential model(
      {layers::Dense(hidden, {.activation = "relu", .input_shape = {784}}), layers::Dense(10)});
  Tensors weights;
  for (const Variable& variable : harness::Classifier<float>({784, hidden, 10}).variables) {
    weights.push_back(variable.value());
  }
  model.set_weights(weights);
  return model;
}

/// Seconds per call while so many threads call all the time.
template <class F>
double seconds_per_call(const F& call, int threads) {
  constexpr double kSeconds = 0.1;
  std::atomic<int64_t> calls{0};
  const auto start = Clock::now();
  const auto work = [&] {
    int64_t own = 0;
    for (; seconds_since(start) < kSeconds; ++own) call();
    calls += own;
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
  return seconds_since(start) / static_cast<double>(calls);
}

/// The best of short turns, as for everything that needs both cores at once.
template <class F>
void measure_threads(const std::string& name, const F& call) {
  constexpr int kTurns = 30;
  double one = 1e30;
  double two = 1e30;
  for (int turn = 0; turn < kTurns; ++turn) {
    one = std::min(one, seconds_per_call(call, 1));
    two = std::min(two, seconds_per_call(call, 2));
  }
  report(name + ".one", one * 1e6, "us");
  report(name + ".two", two * 1e6, "us");
  report(name, one / two, "x");
}

double sum_of(const Tensor& values) { return reduce_sum(values).item<float>(); }

}  // namespace

void infer_threads() {
  devices::reset_devices();
  const keras::Sequential model = model_of(256);
  const Tensor row = harness::features<float>(1);
  const auto compiled = function([&](const Tensor& x) { return model(x); });
  measure_threads("infer_threads_function", [&] { compiled(row); });
  measure_threads("infer_threads_predict", [&] { model.predict(row); });
}

/// In the place of a loss stands the sum of the scores.
void infer_eager() {
  devices::reset_devices();
  const keras::Sequential model = model_of(64);
  const Tensor row = harness::features<float>(1);
  report("infer_eager.loss", sum_of(model(row)), "loss");
  report("infer_eager", best_seconds([&] { model(row); }, 30) * 1e6, "us");
}

}  // namespace tandem::bench
