// What every kind of queue keeps to: commands run in order, copies read and write when their turn
// comes, holds last until then, events and waits order queues, faults surface and are cleared.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "device/test/late_queue.h"
#include "device/test/test_device.h"
#include "device/transfer.h"
#include "harness/cuda.h"
#include "harness/fresh_devices.h"
#include "harness/opencl.h"
#include "harness/throws.h"
#include "tandem/error.h"
#include "tandem/ops.h"
#include "tandem/variable.h"
#include "tensor/body.h"

namespace tandem::devices {
namespace {

using namespace std::chrono_literals;
using harness::throws;
using Ints = std::vector<int32_t>;

/// A kind of queue: two devices that have one each.
struct Kind {
  const char* name;
  std::function<void()> add;
  const char* first;
  const char* second;
};

void add_test_gpus(std::chrono::microseconds delay) {
  for (int i : {0, 1}) {
    test::add_test_gpu({.index = i, .delay = delay, .random_delay = delay.count() > 0});
  }
}

class QueueContract : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (std::string_view(GetParam().name).starts_with("cuda")) TANDEM_SKIP_WITHOUT_NVRTC();
    reset_devices();
    GetParam().add();
    first = find_device(DeviceSpec::parse(GetParam().first));
    second = find_device(DeviceSpec::parse(GetParam().second));
  }
  void TearDown() override {
    first.reset();
    second.reset();
    reset_devices();
  }

  static std::shared_ptr<Buffer> buffer(const DevicePtr& device, size_t count) {
    return std::make_shared<Buffer>(device, count * sizeof(int32_t), DType::int32,
                                    Shape{static_cast<int64_t>(count)});
  }
  static Ints read(Device& device, const void* from, size_t count) {
    Ints values(count);
    char* to = reinterpret_cast<char*>(values.data());
    read_in_chunks(device, from, count * sizeof(int32_t), [&](const char* chunk, size_t bytes) {
      std::memcpy(to, chunk, bytes);
      to += bytes;
    });
    return values;
  }
  static std::shared_ptr<Ints> counted(size_t count, int32_t from) {
    auto values = std::make_shared<Ints>(count);
    for (size_t i = 0; i < count; ++i) (*values)[i] = from + static_cast<int32_t>(i);
    return values;
  }
  static void upload(const DevicePtr& device, Buffer& to, const std::shared_ptr<Ints>& values) {
    device->queue().copy(device->space(), to.data(), host_memory(), values->data(),
                         values->size() * sizeof(int32_t));
    device->queue().hold(values);
  }

  DevicePtr first, second;
};

TEST_P(QueueContract, CommandsRunInTheOrderInWhichTheyWereIssued) {
  const auto memory = buffer(first, 1000);
  for (int32_t i = 0; i < 20; ++i) upload(first, *memory, counted(1000, i));
  EXPECT_EQ(read(*first, memory->data(), 1000), *counted(1000, 19));
}

TEST_P(QueueContract, FillSetsEachByte) {
  const auto memory = buffer(first, 100);
  first->queue().fill(memory->data(), 0xff, 400);
  first->queue().fill(static_cast<char*>(memory->data()) + 200, 0, 200);
  Ints expected(100, -1);
  std::fill(expected.begin() + 50, expected.end(), 0);
  EXPECT_EQ(read(*first, memory->data(), 100), expected);
}

TEST_P(QueueContract, WhatIsHeldLivesUntilTheCommandsBeforeItHaveRun) {
  const auto memory = buffer(first, 10);
  auto values = counted(10, 5);
  const std::weak_ptr<Ints> watched = values;
  upload(first, *memory, values);
  values.reset();
  const Event done = first->queue().record();
  EXPECT_TRUE(done.ready() || !watched.expired());
  done.wait(10s);
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(read(*first, memory->data(), 10), *counted(10, 5));
}

TEST_P(QueueContract, MemoryThatIsGivenBackServesTheNextCommands) {
  const auto result = buffer(first, 1000);
  for (int32_t i = 0; i < 20; ++i) {
    const auto memory = buffer(first, 1000);
    upload(first, *memory, counted(1000, i));
    first->queue().copy(first->space(), result->data(), first->space(), memory->data(), 4000);
  }
  EXPECT_EQ(read(*first, result->data(), 1000), *counted(1000, 19));
}

TEST_P(QueueContract, AQueueWaitsForAnothersEvent) {
  for (int32_t i = 0; i < 20; ++i) {
    const auto here = buffer(first, 100);
    const auto there = buffer(second, 100);
    upload(first, *here, counted(100, i));
    second->queue().wait(first->queue().record());
    second->queue().copy(second->space(), there->data(), first->space(), here->data(), 400);
    second->queue().hold(here);
    EXPECT_EQ(read(*second, there->data(), 100), *counted(100, i));
  }
}

TEST_P(QueueContract, LargeValuesPassInChunksBothWays) {
  constexpr size_t kCount = 700'001;
  const auto values = counted(kCount, 3);
  const auto memory = buffer(first, kCount);
  const char* next = reinterpret_cast<const char*>(values->data());
  write_in_chunks(*first, memory->data(), kCount * 4, [&](char* chunk, size_t bytes) {
    std::memcpy(chunk, next, bytes);
    next += bytes;
  });
  EXPECT_EQ(read(*first, memory->data(), kCount), *values);
}

TEST_P(QueueContract, ABadIndexIsThrownByTheNextWaitAndLeavesVariablesAsTheyWere) {
  const auto scope = device(GetParam().first);
  const Variable v(fill({2}, 1.0f, DType::float32));
  const Tensor table = fill({3, 2}, 1.0f, DType::float32);
  const auto use_bad_index = [&] {
    const Tensor rows = gather(table, Tensor::from(Ints{7}, {1}));
    v.assign_add(reduce_sum(rows, {0}));
    return rows;
  };
  if (first->works_on_threads()) {  // It has thrown before the call returns.
    EXPECT_TRUE(throws<InvalidArgument>(use_bad_index, {"gather", "7"}));
  } else {
    const Tensor rows = use_bad_index();
    v.assign_add(fill({2}, 1.0f, DType::float32));  // Issued behind it: skipped.
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(throws<InvalidArgument>([&] { rows.to_vector<float>(); }, {"gather", "7"}));
    }
  }
  EXPECT_EQ(v.value().to_vector<float>(), (std::vector<float>{1, 1}));
  v.assign_add(fill({2}, 1.0f, DType::float32));
  EXPECT_EQ(v.value().to_vector<float>(), (std::vector<float>{2, 2}));
}

TEST_P(QueueContract, RandomProgramsOfCopiesGiveWhatOneThreadWouldGive) {
  std::minstd_rand random(7);
  constexpr size_t kCount = 64;
  std::vector<std::shared_ptr<Buffer>> memory;
  std::vector<Ints> expected;
  for (int i = 0; i < 6; ++i) {
    memory.push_back(buffer(i % 2 == 0 ? first : second, kCount));
    expected.push_back(*counted(kCount, i));
    upload(i % 2 == 0 ? first : second, *memory.back(), counted(kCount, i));
  }
  for (int turn = 0; turn < 200; ++turn) {
    const size_t from = random() % 6;
    const size_t to = random() % 6;
    if (from == to) continue;
    if (random() % 8 == 0) {
      memory[to] = buffer(memory[to]->device(), kCount);  // The old one is given back.
    }
    transfer(*memory[to]->device(), memory[to]->data(), *memory[from]->device(),
             memory[from]->data(), kCount * 4, memory[from]);
    memory[from]->device()->queue().wait(memory[to]->device()->queue().record());
    expected[to] = expected[from];
  }
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(read(*memory[i]->device(), memory[i]->data(), kCount), expected[i]) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Queues, QueueContract,
    testing::Values(Kind{"cpu",
                         [] {
                           config::set_logical_cpus({{}, {}});
                         },
                         "/CPU:0", "/CPU:1"},
                    Kind{"test", [] { add_test_gpus(0us); }, "/GPU:0", "/GPU:1"},
                    Kind{"test_late", [] { add_test_gpus(100us); }, "/GPU:0", "/GPU:1"},
                    Kind{"opencl", [] { harness::use_opencl(); }, "/GPU:0", "/GPU:1"},
                    Kind{"opencl_apart", [] { harness::use_opencl_apart(); }, "/GPU:0", "/GPU:1"},
                    Kind{"cuda", [] { harness::use_cuda(); }, "/GPU:0", "/GPU:1"},
                    Kind{"cuda_serial", [] { harness::use_cuda(gpu::KernelForm::serial); },
                         "/GPU:0", "/GPU:1"}),
    [](const auto& info) { return info.param.name; });

using Devices = harness::FreshDevices;

TEST_F(Devices, ADeviceIsOpenedWhenItIsFirstUsed) {
  add_test_gpus(0us);
  const auto is_open = [](const char* name) {
    auto& queue = find_device(DeviceSpec::parse(name))->queue();
    return dynamic_cast<test::LateQueue&>(queue).timeline().is_open();
  };
  const auto scope = device("/GPU:1");
  const Tensor x = fill({2}, 1.0f, DType::float32) + 1.0;
  EXPECT_EQ(x.device(), "/device:GPU:1");
  EXPECT_TRUE(is_open("/GPU:1"));
  EXPECT_FALSE(is_open("/GPU:0"));
}

}  // namespace
}  // namespace tandem::devices
