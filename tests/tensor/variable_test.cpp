#include "tandem/variable.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "device/test/test_device.h"
#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/config.h"
#include "tandem/error.h"
#include "tandem/ops.h"
#include "tensor/store.h"

namespace tandem {
namespace {

using harness::throws;
using Floats = std::vector<float>;

class VariableTest : public harness::FreshDevices {
 protected:
  static Variable variable(const Floats& values, const VariableOptions& options = {}) {
    return Variable(Tensor::from(values, {static_cast<int64_t>(values.size())}), options);
  }
  static Floats value(const Variable& variable) { return variable.value().to_vector<float>(); }
  static const StoreRange& range(const Variable& variable) { return variable.body()->range; }
};

TEST_F(VariableTest, KnowsItsNameTypeAndShape) {
  const Variable weights(Tensor::from<double>({1, 2, 3, 4, 5, 6}, {2, 3}),
                         {.name = "kernel", .trainable = false});
  EXPECT_TRUE(weights.defined());
  EXPECT_EQ(weights.name(), "kernel");
  EXPECT_EQ(weights.dtype(), DType::float64);
  EXPECT_EQ(weights.shape(), (Shape{2, 3}));
  EXPECT_FALSE(weights.trainable());
  EXPECT_EQ(weights.value().shape(), (Shape{2, 3}));
  EXPECT_EQ(weights.value().to_vector<double>(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
}

TEST_F(VariableTest, UnlessSaidOtherwiseItIsTrainableAndCalledVariable) {
  EXPECT_TRUE(variable({1}).trainable());
  EXPECT_EQ(variable({1}).name(), "Variable");
}

TEST_F(VariableTest, AReadIsASnapshot) {
  const Variable v = variable({1, 2});
  const Tensor before = v.value();
  v.assign(Tensor::from<float>({3, 4}, {2}));
  EXPECT_EQ(before.to_vector<float>(), (Floats{1, 2}));
  EXPECT_EQ(value(v), (Floats{3, 4}));
}

TEST_F(VariableTest, AReadTakesMemoryOnlyOnceTheVariableIsWritten) {
  constexpr size_t kBytes = 100'000 * sizeof(float);
  const Variable v(zeros({100'000}));
  const auto in_use = [] { return devices::host_device()->allocator().info().current; };
  const size_t before = in_use();
  const Tensor read = v.value();
  const Tensor again = v.value();
  EXPECT_EQ(in_use(), before);
  const Tensor sum = reduce_sum(read + again);
  EXPECT_LT(in_use(), before + kBytes);
  v.assign(ones({100'000}));
  EXPECT_GE(in_use(), before + 2 * kBytes);
  EXPECT_EQ(read.to_vector<float>(), Floats(100'000, 0));
  EXPECT_EQ(value(v), Floats(100'000, 1));
}

TEST_F(VariableTest, AReadThatNobodyHoldsIsNotCopied) {
  const Variable v(zeros({100'000}));
  const auto in_use = [] { return devices::host_device()->allocator().info().peak; };
  const Tensor value = ones({100'000});
  reduce_sum(v.value());
  const size_t before = in_use();
  for (int i = 0; i < 3; ++i) {
    reduce_sum(v.value());
    v.assign(value);
  }
  EXPECT_EQ(in_use(), before);
}

TEST_F(VariableTest, AViewOfAReadIsASnapshotToo) {
  const Variable v = variable({1, 2, 3, 4});
  const Tensor matrix = reshape(v.value(), {2, 2});
  const Tensor row = v.value().rows(1, 3);
  v.assign_add(v);
  EXPECT_EQ(matrix.to_vector<float>(), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(row.to_vector<float>(), (Floats{2, 3}));
  EXPECT_EQ(value(v), (Floats{2, 4, 6, 8}));
}

TEST_F(VariableTest, AVariableMayBeAssignedItsOwnRead) {
  const Variable v = variable({1, 2});
  const Tensor held = v.value();
  v.assign(held);
  EXPECT_EQ(value(v), (Floats{1, 2}));
  v.assign_sub(held);
  EXPECT_EQ(value(v), (Floats{0, 0}));
  EXPECT_EQ(held.to_vector<float>(), (Floats{1, 2}));
}

TEST_F(VariableTest, AReadOutlivesItsVariable) {
  Tensor read;
  {
    const Variable v(fill({100'000}, 3));
    read = v.value();
  }
  EXPECT_EQ(reduce_sum(read).item<float>(), 300'000);
}

/// Between them is nothing but the read: each thread uses its own as long as it likes.
TEST_F(VariableTest, AnotherThreadsAssignsDoNotReachARead) {
  const Variable v(zeros({10'000}));
  std::atomic<int> wrong{0};
  for (int round = 0; round < 20; ++round) {
    const auto expected = static_cast<float>(round);
    const Tensor read = v.value();
    std::thread reader([&] {
      for (int i = 0; i < 5; ++i) {
        wrong += reduce_sum(read * 1.0f).item<float>() != expected * 10'000;
      }
    });
    v.assign(fill({10'000}, round + 1));
    reader.join();
  }
  EXPECT_EQ(wrong, 0);
}

TEST_F(VariableTest, LaterAssignsDoNotReachTheInitialValue) {
  const Tensor initial = Tensor::from<float>({1, 2}, {2});
  const Variable v(initial);
  v.assign_add(initial);
  EXPECT_EQ(initial.to_vector<float>(), (Floats{1, 2}));
  EXPECT_EQ(value(v), (Floats{2, 4}));
}

TEST_F(VariableTest, AssignsReplaceAddAndSubtract) {
  const Variable v = variable({1, 2});
  v.assign(Tensor::from<float>({5, 7}, {2}));
  EXPECT_EQ(value(v), (Floats{5, 7}));
  v.assign_add(Tensor::from<float>({10, 20}, {2}));
  EXPECT_EQ(value(v), (Floats{15, 27}));
  v.assign_sub(Tensor::from<float>({1, 2}, {2}));
  EXPECT_EQ(value(v), (Floats{14, 25}));
}

TEST_F(VariableTest, CanBeAssignedWhatWasComputedFromIt) {
  const Variable v = variable({1, 2});
  v.assign(v * 3.0);
  v.assign_add(v);
  EXPECT_EQ(value(v), (Floats{6, 12}));
}

TEST_F(VariableTest, CopiesOfAHandleNameTheSameVariable) {
  const Variable v = variable({1});
  const Variable same = v;  // NOLINT(performance-unnecessary-copy-initialization)
  same.assign(Tensor::from<float>({8}, {1}));
  EXPECT_EQ(value(v), (Floats{8}));
}

TEST_F(VariableTest, IsATensorWhereOneIsExpected) {
  const Variable v = variable({-1, 2});
  EXPECT_EQ(relu(v).to_vector<float>(), (Floats{0, 2}));
  EXPECT_EQ((v + v).to_vector<float>(), (Floats{-2, 4}));
}

TEST_F(VariableTest, IntegersCount) {
  const Variable step{Tensor(int64_t{0})};
  for (int i = 0; i < 3; ++i) step.assign_add(Tensor(int64_t{1}));
  EXPECT_EQ(step.value().item<int64_t>(), 3);
}

TEST_F(VariableTest, AValueOfAnotherShapeOrTypeIsRefusedAndBothAreNamed) {
  const Variable v(Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3}));
  const Tensor turned = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {3, 2});
  EXPECT_TRUE(throws<InvalidArgument>([&] { v.assign(turned); },
                                      {"assign:", "float32[3,2]", "float32[2,3]"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { v.assign_add(Tensor(1.0f)); },
                                      {"assign_add:", "float32[]", "float32[2,3]"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { v.assign_sub(cast(v, DType::float64)); },
                                      {"assign_sub:", "float64[2,3]", "float32[2,3]"}));
  EXPECT_EQ(value(v), (Floats{1, 2, 3, 4, 5, 6}));
}

TEST_F(VariableTest, ReadingAnEmptyHandleIsRefused) {
  const Variable empty;
  EXPECT_FALSE(empty.defined());
  EXPECT_TRUE(throws<FailedPrecondition>([&] { empty.value(); }, {"this Variable is empty"}));
}

TEST_F(VariableTest, SmallVariablesOfAStoreLieInOneBlockWithoutTouching) {
  const Variable a = variable({1, 2, 3});
  const Variable b = variable({4});
  const Variable c = variable(Floats(100, 5));
  EXPECT_EQ(range(a).block, range(b).block);
  EXPECT_EQ(range(b).block, range(c).block);
  EXPECT_GE(range(b).offset, range(a).offset + 3);
  EXPECT_GE(range(c).offset, range(b).offset + 1);
  b.assign(Tensor::from<float>({9}, {1}));
  EXPECT_EQ(value(a), (Floats{1, 2, 3}));
  EXPECT_EQ(value(b), (Floats{9}));
  EXPECT_EQ(value(c), Floats(100, 5));
}

TEST_F(VariableTest, EachVariableStartsAlignedForVectors) {
  const auto& device = *devices::host_device();
  for (const Variable& v : {variable({1, 2, 3}), variable({1}), Variable(Tensor(1.0)),
                            Variable(Tensor(int64_t{1})), Variable(Tensor(true))}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(range(v).data(device)) % 64, 0u) << v.value().str();
  }
}

TEST_F(VariableTest, MemoryOfVariablesThatAreGoneIsFreeAgain) {
  const Variable kept = variable({1});
  const auto live = [] { return config::get_memory_info("CPU:0").current; };
  const size_t before = live();
  for (int round = 0; round < 100; ++round) {
    const Variable first = variable(Floats(4000, 1));
    const Variable second = variable(Floats(4000, 2));
    EXPECT_EQ(value(first)[0], 1);
  }
  EXPECT_EQ(live(), before);
  EXPECT_EQ(value(kept), (Floats{1}));
}

TEST_F(VariableTest, ALargeVariableHasABlockOfItsOwn) {
  const Variable small = variable({1});
  const Variable large(fill({200, 100}, 3.0));
  EXPECT_NE(range(small).block, range(large).block);
  EXPECT_EQ(range(large).block->capacity(), 20000);
  EXPECT_NE(range(variable({1})).block, range(large).block);
}

TEST_F(VariableTest, EachTypeHasBlocksOfItsOwn) {
  EXPECT_NE(range(Variable(Tensor(1.0f))).block, range(Variable(Tensor(1.0))).block);
}

TEST_F(VariableTest, EachStoreHasBlocksOfItsOwn) {
  const auto store = std::make_shared<Store>(std::vector{devices::host_device()});
  const Variable outside = variable({1});
  {
    const StoreScope scope(store);
    const Variable inside = variable({2});
    EXPECT_EQ(inside.body()->store, store);
    EXPECT_NE(range(inside).block, range(outside).block);
    EXPECT_EQ(value(inside), (Floats{2}));
  }
  EXPECT_EQ(range(variable({3})).block, range(outside).block);
}

TEST_F(VariableTest, ASlotLiesAtTheVariablesOwnOffsetAndStartsAtZero) {
  const Variable a = variable({1, 2, 3});
  const Variable b = variable({4, 5});
  const Variable slot = slot_variable(b, "m");
  EXPECT_EQ(slot.name(), "Variable/m");
  EXPECT_FALSE(slot.trainable());
  EXPECT_NE(range(slot).block, range(b).block);
  EXPECT_EQ(range(slot).offset, range(b).offset);
  EXPECT_EQ(range(slot_variable(a, "m")).block, range(slot).block);
  EXPECT_EQ(value(slot), (Floats{0, 0}));
}

TEST_F(VariableTest, SlotsOfOneNameAreOneAndOthersAreApart) {
  const Variable v = variable({1, 2});
  const Variable slot = slot_variable(v, "m");
  slot.assign(Tensor::from<float>({7, 8}, {2}));
  EXPECT_EQ(value(slot_variable(v, "m")), (Floats{7, 8}));
  EXPECT_EQ(value(slot_variable(v, "v")), (Floats{0, 0}));
  EXPECT_EQ(value(v), (Floats{1, 2}));
}

TEST_F(VariableTest, ASlotThatNobodyHoldsIsForgotten) {
  const Variable v = variable({1, 2});
  slot_variable(v, "m").assign(Tensor::from<float>({7, 8}, {2}));
  EXPECT_EQ(value(slot_variable(v, "m")), (Floats{0, 0}));
}

TEST_F(VariableTest, LivesWhereTheScopeSays) {
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  const auto scope = device("/cpu:1");
  EXPECT_EQ(variable({1}).value().device(), "/device:CPU:1");
}

TEST_F(VariableTest, LivesOnADeviceWithMemoryOfItsOwn) {
  devices::test::add_test_gpu({.delay = std::chrono::microseconds(200)});
  const Variable v = variable({1, 2});
  const Tensor before = v.value();
  EXPECT_EQ(before.device(), "/device:GPU:0");
  v.assign(Tensor::from<float>({5, 7}, {2}));
  v.assign_add(before);
  v.assign_sub(Tensor::from<float>({1, 1}, {2}));
  EXPECT_EQ(value(v), (Floats{5, 8}));
  EXPECT_EQ(before.to_vector<float>(), (Floats{1, 2}));
  EXPECT_EQ(value(slot_variable(v, "m")), (Floats{0, 0}));
}

TEST_F(VariableTest, HasAComponentInEachSpaceOfItsStore) {
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  devices::test::add_test_gpu();
  const auto find = [](const char* name) { return devices::find_device(DeviceSpec::parse(name)); };
  const auto store =
      std::make_shared<Store>(std::vector{find("/cpu:0"), find("/cpu:1"), find("/gpu:0")});
  const StoreScope scope(store);
  const Variable v = variable({1, 2});
  EXPECT_EQ(range(v).block->components().size(), 2u);
  EXPECT_EQ(range(v).data(*find("/cpu:0")), range(v).data(*find("/cpu:1")));
  EXPECT_NE(range(v).data(*find("/cpu:0")), range(v).data(*find("/gpu:0")));

  v.assign(Tensor::from<float>({3, 4}, {2}));
  for (const char* name : {"/cpu:0", "/cpu:1", "/gpu:0"}) {
    const auto on_it = device(name);
    EXPECT_EQ((v * 2.0).to_vector<float>(), (Floats{6, 8})) << name;
  }
}

TEST_F(VariableTest, UsedOnADeviceWithoutAComponentBothDevicesAreNamed) {
  devices::test::add_test_gpu({.index = 0});
  devices::test::add_test_gpu({.index = 1});
  const Variable v = variable({1});
  const auto other = devices::find_device(DeviceSpec::parse("/gpu:1"));
  EXPECT_TRUE(throws<NotFound>([&] { range(v).data(*other); }, {"/device:GPU:0", "/device:GPU:1"}));
}

}  // namespace
}  // namespace tandem
