/// A step that has run once allocates nothing, and a long run does not grow. Every allocation of
/// the process goes through the operators below, which count.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <new>

#include "device/logical_device.h"
#include "harness/classifier.h"
#include "harness/opencl.h"
#include "harness/soak.h"
#include "harness/transformer.h"

namespace {
std::atomic<long> allocations{0};
}

// Not inline, so that the compiler does not look through the pair and find malloc.
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes > 0 ? bytes : 1);
}
[[gnu::noinline]] void* operator new(size_t bytes) {
  if (void* memory = operator new(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace tandem {
namespace {

using harness::Classifier;

/// Allocations of `steps` steps, after some have run.
template <class Step>
long allocations_of(Step step, int steps = 1000) {
  for (int i = 0; i < 20; ++i) step();
  const long before = allocations;
  for (int i = 0; i < steps; ++i) step();
  return allocations - before;
}

long resident_pages() {
  std::ifstream file("/proc/self/statm");
  long total = 0;
  long resident = 0;
  file >> total >> resident;
  return resident;
}

class SteadyState : public testing::Test {
 protected:
  void SetUp() override { devices::reset_devices(); }
  void TearDown() override { devices::reset_devices(); }
};

TEST_F(SteadyState, TheCountersCount) {
  const long before = allocations;
  const Tensor scalar(1.f);
  EXPECT_GT(allocations, before);
}

TEST_F(SteadyState, ACompiledStepAllocatesNothing) {
  config::set_logical_cpus({{.threads = 2}});
  const Classifier<float> model;
  const auto step = model.compiled_step();
  const Tensor x = harness::features<float>(128);
  const Tensor y = harness::labels<float>(128);
  Tensor loss;
  EXPECT_EQ(allocations_of([&] { loss = step(x, y); }), 0);
}

TEST_F(SteadyState, AStepOfATransformerAllocatesNothing) {
  config::set_logical_cpus({{.threads = 2}});
  const harness::Transformer<float> model({.layers = 1, .vocabulary = 64});
  const auto step = model.compiled_step();
  const auto [read, next] = harness::texts(4, model.sizes);
  Tensor loss;
  EXPECT_EQ(allocations_of([&, &x = read, &y = next] { loss = step(x, y); }, 20), 0);
}

TEST_F(SteadyState, AMirroredStepAllocatesNothingForBatchesSeenBefore) {
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  const distribute::MirroredStrategy strategy;
  const auto scope = strategy.scope();
  const Classifier<float> model;
  const auto step = model.compiled_step();
  const auto x = strategy.split(harness::features<float>(128));
  const auto y = strategy.split(harness::labels<float>(128));
  const auto last_x = strategy.split(harness::features<float>(95));
  const auto last_y = strategy.split(harness::labels<float>(95));
  distribute::PerReplica loss;
  EXPECT_EQ(allocations_of([&] {
              loss = strategy.run(step, x, y);
              loss = strategy.run(step, last_x, last_y);
            }),
            0);
}

/// Device buffers that the first two GPUs have taken from their drivers.
uint64_t device_buffers() {
  uint64_t all = 0;
  for (const char* name : {"/GPU:0", "/GPU:1"}) {
    all += devices::find_device(DeviceSpec::parse(name))->allocator().info().space_allocations;
  }
  return all;
}

TEST_F(SteadyState, AStepOnAGpuAllocatesNothing) {
  harness::use_opencl();
  const Classifier<float> model;
  const auto step = model.compiled_step();
  const Tensor x = copy_to_device(harness::features<float>(128), "/CPU:0");
  const Tensor y = copy_to_device(harness::labels<float>(128), "/CPU:0");
  Tensor loss;
  for (int i = 0; i < 100; ++i) loss = step(x, y);
  const uint64_t buffers = device_buffers();
  // Where the host is for once further ahead of the device than ever before, it needs a mark more
  // and room for it: two allocations. A step that allocates does so in every turn.
  long least = 1;
  for (int turn = 0; turn < 5 && least != 0; ++turn) {
    least = allocations_of([&] { loss = step(x, y); }, 100);
  }
  EXPECT_EQ(least, 0);
  EXPECT_EQ(device_buffers(), buffers);
  EXPECT_GT(loss.item<float>(), 0);
}

TEST_F(SteadyState, AMirroredStepOnGpusAllocatesNothing) {
  harness::use_opencl();
  const distribute::MirroredStrategy strategy({"/GPU:0", "/GPU:1"});
  const auto scope = strategy.scope();
  const Classifier<float> model({784, 600, 600, 10}, 0.001);  // Two buckets.
  const auto step = model.compiled_step();
  const auto x = strategy.split(harness::features<float>(256));
  const auto y = strategy.split(harness::labels<float>(256));
  distribute::PerReplica loss;
  for (int i = 0; i < 20; ++i) loss = strategy.run(step, x, y);
  const uint64_t buffers = device_buffers();
  // Lists may still grow when the host is for once further ahead than before; no run allocates.
  EXPECT_LT(allocations_of([&] { loss = strategy.run(step, x, y); }, 50), 10);
  EXPECT_EQ(device_buffers(), buffers);
}

// Sanitizers are slow, and keep freed memory back.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kManySteps = 1000;
constexpr long kFlat = 64 << 20;
#else
constexpr int kManySteps = 3000;
constexpr long kFlat = 1 << 20;
#endif

TEST_F(SteadyState, ResidentMemoryIsFlatOverManySteps) {
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  const distribute::MirroredStrategy strategy;
  const auto scope = strategy.scope();
  const Classifier<float> model;
  const auto step = model.compiled_step();
  const Tensor x = harness::features<float>(256);
  const Tensor y = harness::labels<float>(256);
  const auto train = [&](int i) {
    const int64_t begin = i % 7;
    const int64_t end = begin + 16 - i % 3;
    return strategy.run(step, strategy.split(x.rows(begin, end)),
                        strategy.split(y.rows(begin, end)));
  };
  for (int i = 0; i < 1000; ++i) train(i);
  const long before = resident_pages();
  const auto steps = static_cast<int>(harness::rounds(kManySteps, 100'000));
  for (int i = 0; i < steps; ++i) train(i);
  const long grown = (resident_pages() - before) * sysconf(_SC_PAGESIZE);
  EXPECT_LT(grown, kFlat);
}

/// Batches of two sizes by turns, with and without somebody who reads the loss.
TEST_F(SteadyState, StepsOnGpusLeakNeitherHostNorDeviceMemory) {
  harness::use_opencl();
  const distribute::MirroredStrategy strategy({"/GPU:0", "/GPU:1"});
  const auto scope = strategy.scope();
  const Classifier<float> model;
  const auto step = model.compiled_step();
  const Tensor x = copy_to_device(harness::features<float>(64), "/CPU:0");
  const Tensor y = copy_to_device(harness::labels<float>(64), "/CPU:0");
  const auto train = [&](int i) {
    const int64_t rows = i % 2 == 0 ? 64 : 33;
    const auto loss =
        strategy.run(step, strategy.split(x.rows(0, rows)), strategy.split(y.rows(0, rows)));
    if (i % 7 == 0) (*loss.values())[0].item<float>();
  };
  for (int i = 0; i < 200; ++i) train(i);
  const long before = resident_pages();
  const uint64_t buffers = device_buffers();
  const auto steps = static_cast<int>(harness::rounds(300, 10'000));
  for (int i = 0; i < steps; ++i) train(i);
  EXPECT_EQ(device_buffers(), buffers);
  EXPECT_LT((resident_pages() - before) * sysconf(_SC_PAGESIZE), 8 * kFlat);
}

TEST_F(SteadyState, TheDevicesMemoryIsUsedAgain) {
  config::set_logical_cpus({{.threads = 1}});
  const Tensor x = fill({1000, 10}, 1);
  for (int i = 0; i < 10; ++i) add(x, x);
  const auto before = devices::host_device()->allocator().info();
  for (int i = 0; i < 1000; ++i) add(x, x);
  const auto after = devices::host_device()->allocator().info();
  EXPECT_EQ(after.space_allocations, before.space_allocations);
  EXPECT_EQ(after.current, before.current);
}

}  // namespace
}  // namespace tandem
