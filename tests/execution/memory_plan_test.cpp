// What a run will allocate, known before the first, is what the allocators then see.
#include <gtest/gtest.h>

#include <map>

#include "device/test/test_device.h"
#include "harness/classifier.h"
#include "harness/convnet.h"
#include "harness/fresh_devices.h"
#include "harness/replica_group.h"
#include "harness/throws.h"
#include "harness/transformer.h"

namespace tandem {
namespace {

using harness::throws;

class MemoryPlanTest : public harness::FreshDevices {
 protected:
  static devices::Allocator& allocator_of(const std::string& device) {
    return devices::find_device(DeviceSpec::parse(device))->allocator();
  }

  /// Queued work holds memory until it is done.
  static void wait_for_queues() {
    for (const auto& device : devices::all_devices()) {
      device->queue().record().wait(std::chrono::seconds(100));
    }
  }

  /// Runs and compares the growth of each allocator with the plan.
  template <class Run>
  static void expect_as_planned(const MemoryPlan& plan, const Run& run) {
    std::map<devices::Allocator*, size_t> planned, before;
    for (const MemoryPlan::Device& device : plan.devices) {
      planned[&allocator_of(device.name)] += device.bytes();
    }
    wait_for_queues();
    for (const auto& [allocator, bytes] : planned) {
      allocator->reset_peak();
      before[allocator] = allocator->info().current;
    }
    const auto results = run();
    wait_for_queues();
    for (const auto& [allocator, bytes] : planned) {
      EXPECT_EQ(allocator->info().peak - before[allocator], bytes);
    }
  }

  template <class Step>
  static void expect_step_as_planned(const Step& step, const Tensor& x, const Tensor& y) {
    step.trace(x, y);
    expect_as_planned(step.memory_plan(x.shape()[0]), [&] { return step(x, y); });
  }
};

TEST_F(MemoryPlanTest, IsThereOnceAFunctionIsTraced) {
  const Tensor w = fill({64, 2048}, 0.5);
  const auto f = function([&](const Tensor& x) {
    const Tensor h = relu(matmul(x, w));
    return std::pair{matmul(h, w, {.transpose_b = true}), reduce_sum(h)};
  });
  EXPECT_TRUE(throws<FailedPrecondition>([&] { f.memory_plan(8); }, {"not traced yet"}));
  const Tensor x = fill({300, 64}, 1.0);
  f.trace(x);
  for (const int64_t rows : {int64_t{-1}, int64_t{1} << 60}) {
    EXPECT_TRUE(throws<InvalidArgument>([&] { f.memory_plan(rows); }, {"give 0 to"})) << rows;
  }
  EXPECT_EQ(f.trace_count(), 1);
  const MemoryPlan plan = f.memory_plan(300);
  ASSERT_EQ(plan.devices.size(), 1u);
  EXPECT_EQ(plan.devices[0].name, "/device:CPU:0");
  EXPECT_GT(plan.devices[0].arena_bytes, 300u * 2048 * 4);
  expect_as_planned(plan, [&] { return f(x); });
}

TEST_F(MemoryPlanTest, HoldsForStepsOfTraining) {
  for (int threads : {1, 3}) {
    restart();
    config::set_logical_cpus({{.threads = threads}});
    expect_step_as_planned(harness::Classifier<float>().compiled_step(),
                           harness::features<float>(96), harness::labels<float>(96));
    expect_step_as_planned(harness::Convnet<float>().compiled_step(), fill({16, 28, 28, 1}, 0.5),
                           fill({16}, 3, DType::int32));
    const harness::Transformer<float> model(
        {.layers = 2, .width = 16, .heads = 2, .tokens = 8, .vocabulary = 32});
    const auto [read, next] = harness::texts(4, model.sizes);
    expect_step_as_planned(model.compiled_step(), read, next);
  }
}

TEST_F(MemoryPlanTest, HoldsForControlFlow) {
  const auto f = function([](const Tensor& x) {
    const Tensor chosen = cond(
        greater(reduce_sum(x), Tensor(0.0f)), [&] { return matmul(x, relu(x)); },
        [&] { return x; });
    return while_loop([](const Tensor& y) { return less(reduce_sum(y), Tensor(1e6f)); },
                      [](const Tensor& y) { return exp(y) + y; }, chosen);
  });
  const Tensor x = fill({64, 64}, 0.01);
  f.trace(x);
  expect_as_planned(f.memory_plan(64), [&] { return f(x); });
}

TEST_F(MemoryPlanTest, HoldsOnADeviceWithMemoryOfItsOwn) {
  devices::test::add_test_gpu();
  const auto scope = device("/GPU:0");
  const harness::Classifier<float> model;
  const Tensor x = identity(harness::features<float>(96));
  const Tensor y = identity(harness::labels<float>(96));
  x.to_vector<float>();
  expect_step_as_planned(model.compiled_step(), x, y);
}

/// Rows are those of each replica. What lies in another memory space than its replica is copied for
/// it, which is not part of the plan.
TEST_F(MemoryPlanTest, HoldsForReplicas) {
  constexpr int64_t kRows = 48;
  for (const char* second : {"/CPU:1", "/GPU:0"}) {
    restart();
    devices::test::add_test_gpu();
    config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
    const harness::ReplicaGroup group({.devices = {"/CPU:0", second}});
    const auto host = device("/CPU:0");
    const Tensors batch{harness::features<float>(2 * kRows), harness::labels<float>(2 * kRows)};
    const StoreScope scope(group.store());
    const harness::Classifier<float> model;
    const auto step = model.compiled_step();
    group.trace(step, batch);
    MemoryPlan plan = step.memory_plan(kRows);
    ASSERT_EQ(plan.devices.size(), 2u);
    if (plan.devices[1].name == "/device:GPU:0") {
      for (const Tensor& each : batch) {
        const auto bytes = static_cast<size_t>(each.shape().count() / 2) * sizeof(float);
        plan.devices[1].copy_bytes += devices::Allocator::rounded(bytes);
      }
    }
    expect_as_planned(plan, [&] { return group.run(step, batch); });
  }
}

TEST_F(MemoryPlanTest, ATableHasARowForEachNumberOfRows) {
  const Tensor w = fill({8, 32}, 0.5);
  const auto f = function([&](const Tensor& x) { return matmul(x, w) * 2.0; });
  f.trace(fill({4, 8}, 0.5));
  const std::string table = f.memory_table({1, 16, 1024});
  EXPECT_NE(table.find("/device:CPU:0"), std::string::npos) << table;
  EXPECT_NE(table.find("\n      1024  "), std::string::npos) << table;
  EXPECT_EQ(std::ranges::count(table, '\n'), 4) << table;
}

TEST_F(MemoryPlanTest, AnErrorOfMemorySaysHowManyRowsWouldFit) {
  constexpr size_t kLimit = 1 << 20;
  config::add_test_device();
  config::set_logical_device_configuration(config::list_physical_devices("GPU")[0],
                                           {{.memory_limit = kLimit}});
  const auto scope = device("/GPU:0");
  const Tensor w = fill({256, 256}, 0.5f, DType::float32);
  const auto f = function([&](const Tensor& x) {
    const Tensor wide = tile(x, {1, 64});
    return reduce_sum(matmul(wide, w));
  });
  const auto run = [&](int64_t rows) {
    return f(fill({rows, 4}, 0.5f, DType::float32)).item<float>();
  };
  std::string message;
  try {
    run(1000);
  } catch (const ResourceExhausted& error) {
    message = error.what();
  }
  const std::string_view begin = "; of 1000 rows on this device, ";
  const size_t at = message.find(begin);
  ASSERT_NE(at, std::string::npos) << message;
  EXPECT_NE(message.find("largest live tensors"), std::string::npos) << message;
  const int64_t rows = std::stoll(message.substr(at + begin.size()));
  EXPECT_GT(rows, 10);
  EXPECT_GT(run(rows), 0);
}

}  // namespace
}  // namespace tandem
