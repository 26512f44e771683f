#include "runtime/random_calls.h"

#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "device/settings.h"
#include "tandem/error.h"
#include "tandem/ops/random.h"

namespace tandem::runtime {
namespace {

// What TensorFlow takes for ops that have a seed where there is no global one.
constexpr uint64_t kDefaultSeed = 87654321;

struct State {
  std::mutex mutex;
  uint64_t calls = 0;
  std::optional<uint64_t> seed;
  std::thread::id only_thread{};  // Where random numbers must be drawn in one order.
};

State& state() {
  static State state;
  return state;
}

/// Another number in every process.
uint64_t process_seed() {
  static const uint64_t seed = [] {
    std::random_device device;
    return uint64_t{device()} << 32 | device();
  }();
  return seed;
}

void check_thread(State& now) {
  const auto mine = std::this_thread::get_id();
  if (now.only_thread == std::thread::id()) now.only_thread = mine;
  if (now.only_thread == mine) return;
  throw FailedPrecondition(
      "random numbers: with op determinism only one thread may draw them, and another has; the "
      "order of two threads is not the same in each run");
}

}  // namespace

op::RandomRun next_random_run() {
  State& now = state();
  const std::lock_guard lock(now.mutex);
  if (devices::settings.deterministic.load(std::memory_order_relaxed)) check_thread(now);
  return {now.calls++, now.seed.value_or(kDefaultSeed), now.seed.value_or(process_seed())};
}

void reset_random_calls(uint64_t next) {
  State& now = state();
  const std::lock_guard lock(now.mutex);
  now.calls = next;
  now.only_thread = {};
}

void forget_global_seed() {
  State& now = state();
  const std::lock_guard lock(now.mutex);
  now.seed.reset();
}

}  // namespace tandem::runtime

namespace tandem::random {

void set_seed(uint64_t seed) {
  runtime::State& now = runtime::state();
  const std::lock_guard lock(now.mutex);
  now.seed = seed;
  now.calls = 0;
}

}  // namespace tandem::random
