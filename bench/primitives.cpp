/// The pieces: an eager call, a collective, the start of a process.
#include "bench.h"
#include "collective/collective.h"
#include "device/logical_device.h"
#include "support/process.h"
#include "support/triad.h"
#include "tandem/tandem.h"

namespace tandem::bench {
namespace {

/// Seconds of one all_reduce of `count` floats between two replicas, within a program: the
/// difference between a program of many and a program of one, so that entering and leaving it do
/// not count.
double allreduce_seconds(int64_t count, int chain) {
  devices::reset_devices();
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  const distribute::MirroredStrategy strategy;
  const Tensor rows = fill({2}, 1e-30);
  const Tensor values = fill({count}, 1e-30);
  const auto program_of = [&](int length) {
    return function([length, values](const Tensor& x) {
      Tensor value = values + reduce_sum(x);
      for (int i = 0; i < length; ++i) value = collective::all_reduce({value})[0];
      return value;
    });
  };
  const auto one = program_of(1);
  const auto many = program_of(chain + 1);
  const double single = best_seconds([&] { strategy.run(one, distribute::PerReplica(rows)); });
  const double several = best_seconds([&] { strategy.run(many, distribute::PerReplica(rows)); });
  return (several - single) / chain;
}

}  // namespace

void eager_add() {
  devices::reset_devices();
  const Tensor a = Tensor::from({1.f, 2.f, 3.f, 4.f}, {4});
  const Tensor b = Tensor::from({5.f, 6.f, 7.f, 8.f}, {4});
  report("eager_add", best_seconds([&] { add(a, b); }) * 1e6, "us");
}

void local_allreduce() {
  constexpr int64_t kSmall = 10 * 1024 / 4;
  constexpr int64_t kLarge = 33 * 1024 * 1024 / 4;
  report("local_allreduce_10KB", allreduce_seconds(kSmall, 64) * 1e6, "us");
  const double large = allreduce_seconds(kLarge, 4);
  report("local_allreduce_33MB.ms", large * 1e3, "ms");
  report("local_allreduce_33MB", large / triad_seconds(kLarge), "x");
}

void startup() {
  report("startup", best_seconds([] { run_self("--train-one-step"); }, 10, 0.1) * 1e3, "ms");
}

}  // namespace tandem::bench
