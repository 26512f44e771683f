#include "runtime/random_calls.h"

#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "device/settings.h"
#include "tandem/error.h"
#include "tandem/ops/random.h"

namespace tandem::runtime {
namespace {

// What TensorFlow takes for ops that have a seed where there is no global one.
constexpr uint64_t kDefaultSeed = 87654321;

/// Another number in every process.
uint64_t new_process_seed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

struct RandomCounter {
  std::mutex mutex;
  RandomState random{.calls = 0, .seed = std::nullopt, .process_seed = new_process_seed()};
  std::thread::id only_thread{};  // Where random numbers must be drawn in one order.
};

RandomCounter& state() {
  static RandomCounter state;
  return state;
}

thread_local RandomPurpose current_purpose = RandomPurpose::steps;

void check_thread(RandomCounter& now) {
  const auto mine = std::this_thread::get_id();
  if (now.only_thread == std::thread::id()) now.only_thread = mine;
  if (now.only_thread == mine) return;
  throw FailedPrecondition(
      "random numbers: with op determinism only one thread may draw them, and another has; the "
      "order of two threads is not the same in each run");
}

}  // namespace

RandomPurposeScope::RandomPurposeScope(RandomPurpose purpose)
    : former_(std::exchange(current_purpose, purpose)) {}
RandomPurposeScope::~RandomPurposeScope() { current_purpose = former_; }

op::RandomRun next_random_run(uint64_t calls) {
  if (calls == 0) return {};
  RandomCounter& now = state();
  const std::lock_guard lock(now.mutex);
  if (devices::settings.deterministic.load(std::memory_order_relaxed)) check_thread(now);
  RandomState& random = now.random;
  const bool initial = current_purpose == RandomPurpose::initial_values;
  uint64_t& next = initial ? random.initial_calls : random.calls;
  return {std::exchange(next, next + calls), static_cast<uint32_t>(current_purpose),
          random.seed.value_or(kDefaultSeed), random.seed.value_or(random.process_seed)};
}

op::RandomRun next_shared_random_run(uint64_t calls) {
  if (calls == 0) return {};
  RandomCounter& now = state();
  const std::lock_guard lock(now.mutex);
  RandomState& random = now.random;
  random.calls += calls;
  return {std::exchange(random.shared_calls, random.shared_calls + calls),
          static_cast<uint32_t>(RandomPurpose::steps), random.seed.value_or(kDefaultSeed),
          random.seed.value_or(random.process_seed)};
}

void take_back_shared(const op::RandomRun& run, uint64_t calls) {
  if (calls == 0) return;
  RandomCounter& now = state();
  const std::lock_guard lock(now.mutex);
  if (now.random.shared_calls != run.call + calls) return;
  now.random.shared_calls = run.call;
  now.random.calls -= calls;
}

void take_back(const op::RandomRun& run, uint64_t calls) {
  if (calls == 0) return;
  RandomCounter& now = state();
  const std::lock_guard lock(now.mutex);
  RandomState& random = now.random;
  const bool initial = run.purpose == static_cast<uint32_t>(RandomPurpose::initial_values);
  uint64_t& next = initial ? random.initial_calls : random.calls;
  const bool same_seed = run.unseeded_seed == random.seed.value_or(random.process_seed);
  if (same_seed && next == run.call + calls) next = run.call;
}

void reset_random_calls(uint64_t next) {
  RandomCounter& now = state();
  const std::lock_guard lock(now.mutex);
  now.random.calls = next;
  now.random.initial_calls = next;
  now.random.shared_calls = next;
  now.only_thread = {};
}

void forget_global_seed() {
  RandomCounter& now = state();
  const std::lock_guard lock(now.mutex);
  now.random.seed.reset();
}

RandomState random_state() {
  RandomCounter& now = state();
  const std::lock_guard lock(now.mutex);
  return now.random;
}

void set_random_state(const RandomState& restored) {
  RandomCounter& now = state();
  const std::lock_guard lock(now.mutex);
  now.random = restored;
}

}  // namespace tandem::runtime

namespace tandem::random {

void set_seed(uint64_t seed) {
  runtime::RandomCounter& now = runtime::state();
  const std::lock_guard lock(now.mutex);
  now.random.seed = seed;
  now.random.calls = 0;
  now.random.initial_calls = 0;
  now.random.shared_calls = 0;
}

}  // namespace tandem::random
