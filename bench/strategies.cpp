/// Strategies against each other, and against one replica.
#include "bench.h"
#include "device/device.h"
#include "harness/convnet.h"

namespace tandem::bench {
namespace {

/// The time of `step` over that of `other`, both measured by turns.
template <class Step, class Other>
double ratio(const Step& step, const Other& other) {
  double best_step = 1e9;
  double best_other = 1e9;
  for (int round = 0; round < 5; ++round) {
    best_step = std::min(best_step, best_seconds(step, 5, 0.2));
    best_other = std::min(best_other, best_seconds(other, 5, 0.2));
  }
  return best_step / best_other;
}

/// A model under training with a strategy.
template <class Model>
class Trained {
 public:
  template <class... Args>
  Trained(const distribute::Strategy& strategy, const Tensor& x, const Tensor& y, Args... args)
      : strategy_(strategy),
        model_(made_in(strategy, args...)),
        step_(model_.compiled_step()),
        x_(strategy_.split(x)),
        y_(strategy_.split(y)) {}

  void operator()() const { strategy_.run(step_, x_, y_); }

 private:
  template <class... Args>
  static Model made_in(const distribute::Strategy& strategy, Args... args) {
    const auto scope = strategy.scope();
    return Model(args...);
  }

  const distribute::Strategy strategy_;
  const Model model_;
  const decltype(model_.compiled_step()) step_;
  const distribute::PerReplica x_, y_;
};

void two_cpus() {
  devices::reset_devices();
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
}

}  // namespace

void mirrored_scaling() {
  constexpr int64_t kEach = 64;
  two_cpus();
  using Net = Trained<harness::Convnet<float>>;
  const auto make = [](const std::vector<std::string>& devices) {
    const auto rows = kEach * static_cast<int64_t>(devices.size());
    return Net(distribute::MirroredStrategy(devices), harness::images<float>(rows),
               harness::classes(rows));
  };
  const Net one = make({"/CPU:0"});
  const Net two = make({"/CPU:0", "/CPU:1"});
  report("mirrored_scaling", 2 / ratio(two, one), "x");
}

void central_overhead() {
  constexpr int64_t kBatch = 128;
  two_cpus();
  using Net = Trained<harness::Classifier<float>>;
  const std::vector<int64_t> sizes{784, 1024, 1024, 10};
  const Tensor x = harness::features<float>(kBatch);
  const Tensor y = harness::labels<float>(kBatch);
  const Net mirrored(distribute::MirroredStrategy(), x, y, sizes, 0.0001);
  const Net central(distribute::CentralStorageStrategy(), x, y, sizes, 0.0001);
  report("central_overhead", ratio(central, mirrored), "x");
}

}  // namespace tandem::bench
