#include "tandem/checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "device/test/test_device.h"
#include "harness/fresh_devices.h"
#include "harness/temp_folder.h"
#include "harness/throws.h"
#include "tandem/tandem.h"
#include "tensor/store.h"

namespace tandem::train {
namespace {

using harness::throws;
using Floats = std::vector<float>;
using Names = std::vector<std::string>;

Variable variable(const Floats& values, const std::string& name = "v") {
  return Variable(Tensor::from(values, {static_cast<int64_t>(values.size())}), {.name = name});
}
Floats value(const Variable& variable) { return variable.value().to_vector<float>(); }
void set(const Variable& variable, const Floats& values) {
  variable.assign(Tensor::from(values, variable.shape()));
}

class CheckpointTest : public harness::FreshDevices {
 protected:
  harness::TempFolder folder_;
};

TEST_F(CheckpointTest, GivesBackWhatWasSaved) {
  const Variable a = variable({1, 2, 3});
  const Variable step{Tensor(int64_t{4})};
  const Checkpoint checkpoint({{"a", a}, {"step", step}});
  const auto path = checkpoint.save(folder_ / "ckpt");
  EXPECT_EQ(path, folder_ / "ckpt-1");
  set(a, {0, 0, 0});
  step.assign(Tensor(int64_t{9}));
  const CheckpointStatus status = checkpoint.restore(path);
  EXPECT_EQ(value(a), (Floats{1, 2, 3}));
  EXPECT_EQ(step.value().item<int64_t>(), 4);
  EXPECT_EQ(status.path(), path);
  status.assert_consumed();
}

TEST_F(CheckpointTest, WhatWasReadBeforeARestoreStaysAsItWas) {
  const Variable a = variable({1, 2, 3});
  const Checkpoint checkpoint({{"a", a}});
  const auto path = checkpoint.save(folder_ / "ckpt");
  set(a, {7, 8, 9});
  const Tensor read = a.value();
  checkpoint.restore(path);
  EXPECT_EQ(read.to_vector<float>(), (Floats{7, 8, 9}));
  EXPECT_EQ(value(a), (Floats{1, 2, 3}));
}

TEST_F(CheckpointTest, CountsItsSavesAndTheFolderKnowsTheLatest) {
  EXPECT_EQ(latest_checkpoint(folder_.path()), std::nullopt);
  const Checkpoint checkpoint({{"a", variable({1})}});
  checkpoint.save(folder_ / "ckpt");
  EXPECT_EQ(checkpoint.save(folder_ / "ckpt"), folder_ / "ckpt-2");
  EXPECT_EQ(latest_checkpoint(folder_.path()), folder_ / "ckpt-2");

  const Checkpoint next_process({{"a", variable({1})}});
  next_process.restore(latest_checkpoint(folder_.path()));
  EXPECT_EQ(next_process.save_counter(), 2);
  EXPECT_EQ(next_process.save(folder_ / "ckpt"), folder_ / "ckpt-3");
}

TEST_F(CheckpointTest, WithoutAPathNothingHappens) {
  const Variable a = variable({1});
  const Checkpoint checkpoint({{"a", a}});
  const CheckpointStatus status = checkpoint.restore(latest_checkpoint(folder_.path()));
  EXPECT_EQ(status.path(), std::nullopt);
  EXPECT_EQ(value(a), (Floats{1}));
  EXPECT_TRUE(throws<FailedPrecondition>([&] { status.assert_consumed(); }, {"no checkpoint"}));
}

TEST_F(CheckpointTest, EveryTypeAndShapeComesBack) {
  const Trackable root;
  std::vector<Variable> variables;
  int number = 0;
  for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16,
                            DType::uint8, DType::int32, DType::int64, DType::boolean}) {
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 0}, Shape{2, 3, 4}}) {
      const Tensor initial = cast(fill(shape, 1), dtype);
      variables.emplace_back(initial);
      root.track(std::to_string(number++), variables.back());
    }
  }
  const Checkpoint checkpoint(root);
  checkpoint.write(folder_ / "all");
  Tensors saved;
  for (const Variable& v : variables) {
    saved.push_back(v.value());
    v.assign(cast(fill(v.shape(), 0), v.dtype()));
  }
  checkpoint.restore(folder_ / "all").assert_consumed();
  for (size_t i = 0; i < variables.size(); ++i) {
    EXPECT_EQ(variables[i].value().str(), saved[i].str());
  }
}

TEST_F(CheckpointTest, KeysArePathsAndSharedVariablesAreSavedOnce) {
  const Variable shared = variable({1, 2});
  const Trackable layer;
  layer.track("kernel", shared);
  const Trackable model;
  model.track("layer-0", layer);
  model.track("tied", shared);
  Checkpoint({{"model", model}}).save(folder_ / "ckpt");
  EXPECT_EQ(load_checkpoint(folder_.path()).keys(),
            (Names{"_CHECKPOINTABLE_OBJECT_GRAPH", "model/tied/.ATTRIBUTES/VARIABLE_VALUE",
                   "save_counter/.ATTRIBUTES/VARIABLE_VALUE"}));
}

TEST_F(CheckpointTest, ReadersSeeTypesShapesAndValues) {
  Checkpoint({{"x", Variable(Tensor::from<float>({1, 2, 3, 4}, {2, 2}))}}).save(folder_ / "c");
  const CheckpointReader reader = load_checkpoint(folder_ / "c-1");
  const std::string key = "x/.ATTRIBUTES/VARIABLE_VALUE";
  EXPECT_EQ(reader.dtype_name(key), "float32");
  EXPECT_EQ(reader.shape(key), (Shape{2, 2}));
  EXPECT_EQ(reader.tensor(key).to_vector<float>(), (Floats{1, 2, 3, 4}));
  EXPECT_TRUE(throws<NotFound>([&] { reader.tensor("y"); }, {"c-1.index", "no key 'y'", key}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { reader.bytes(key); }, {key, "float32[2,2]"}));
  EXPECT_TRUE(throws<Unimplemented>([&] { reader.tensor("_CHECKPOINTABLE_OBJECT_GRAPH"); },
                                    {"string", "bytes()"}));
}

TEST_F(CheckpointTest, HostStatesAreSavedAndRestoredByCalls) {
  std::string position = std::string("row 5\0of 9", 10);
  int64_t epoch = 3;
  float rate = 0.5f;
  const Checkpoint checkpoint({
      {"position", HostState<std::string>{.save = [&] { return position; },
                                          .restore = [&](const auto& p) { position = p; }}},
      {"epoch",
       HostState<int64_t>{.save = [&] { return epoch; }, .restore = [&](int64_t e) { epoch = e; }}},
      {"rate",
       HostState<float>{.save = [&] { return rate; }, .restore = [&](float r) { rate = r; }}},
  });
  checkpoint.write(folder_ / "c");
  position.clear();
  epoch = 0;
  rate = 0;
  checkpoint.restore(folder_ / "c").assert_consumed();
  EXPECT_EQ(position, std::string("row 5\0of 9", 10));
  EXPECT_EQ(epoch, 3);
  EXPECT_EQ(rate, 0.5f);
}

/// TensorFlow sees a float. The full value is no object, whose absence it would report.
TEST_F(CheckpointTest, ADoubleIsSavedAsAFloatAndInFull) {
  double rate = 0.1;
  const HostState<double> state{.save = [&] { return rate; },
                                .restore = [&](double saved) { rate = saved; }};
  Checkpoint({{"rate", state}}).write(folder_ / "c");
  const CheckpointReader reader = load_checkpoint(folder_ / "c");
  const std::string key = "rate/.ATTRIBUTES/VARIABLE_VALUE";
  EXPECT_EQ(reader.tensor(key).item<float>(), 0.1f);
  EXPECT_EQ(reader.tensor(key + "/float64").item<double>(), 0.1);
  EXPECT_EQ(reader.bytes("_CHECKPOINTABLE_OBJECT_GRAPH").find("float64"), std::string::npos);
  rate = 7;
  Checkpoint({{"rate", state}}).restore(folder_ / "c").assert_consumed();
  EXPECT_EQ(rate, 0.1);
}

TEST_F(CheckpointTest, ADoubleThatRoundsToASavedFloatStays) {
  Checkpoint({{"rate", Variable(Tensor(0.1f))}}).write(folder_ / "c");
  Checkpoint({{"rate", Variable(Tensor(0.1))}}).write(folder_ / "full");
  double rate = 0.1 + 1e-12;
  const Checkpoint checkpoint(
      {{"rate",
        HostState<double>{.save = [&] { return rate; }, .restore = [&](double s) { rate = s; }}}});
  checkpoint.restore(folder_ / "c");
  EXPECT_EQ(rate, 0.1 + 1e-12);
  checkpoint.restore(folder_ / "full");
  EXPECT_EQ(rate, 0.1);
  rate = 0.2;
  checkpoint.restore(folder_ / "c");
  EXPECT_EQ(rate, static_cast<double>(0.1f));
}

TEST_F(CheckpointTest, AnotherNameIsRestoredAndNotSaved) {
  Checkpoint({{"before", variable({1})}}).write(folder_ / "former");
  const Variable v = variable({0});
  const Trackable root;
  root.track("now", v);
  root.track("before", v, {.restore_only = true});
  Checkpoint(root).restore(folder_ / "former").assert_consumed();
  EXPECT_EQ(value(v), (Floats{1}));
  Checkpoint(root).write(folder_ / "c");
  EXPECT_EQ(load_checkpoint(folder_ / "c").keys(),
            (Names{"_CHECKPOINTABLE_OBJECT_GRAPH", "now/.ATTRIBUTES/VARIABLE_VALUE",
                   "save_counter/.ATTRIBUTES/VARIABLE_VALUE"}));
}

TEST_F(CheckpointTest, AFallbackCountsOnlyForWhatHasNoOtherName) {
  const Trackable saved_list;
  saved_list.track("0", variable({1}));
  saved_list.track("1", variable({2}));
  Checkpoint({{"list", saved_list}, {"deep", saved_list}, {"b", variable({3})}})
      .write(folder_ / "c");

  const Variable a = variable({0}), b = variable({0});
  const Trackable list, root;
  list.track("0", b);  // In another order.
  list.track("1", a);
  root.track("list", list, {.fallback = true});
  root.track("b", b);
  Checkpoint(root).restore(folder_ / "c");
  EXPECT_EQ(value(a), (Floats{2}));
  EXPECT_EQ(value(b), (Floats{3}));
}

TEST_F(CheckpointTest, AVariableThatComesLateGetsItsValueThen) {
  {
    const Trackable layer;
    layer.track("kernel", variable({1, 2}));
    layer.track("bias", variable({3}));
    const Trackable model;
    model.track("layer-0", layer);
    Checkpoint({{"model", model}}).save(folder_ / "ckpt");
  }
  const Trackable model;
  const Checkpoint checkpoint({{"model", model}});
  const CheckpointStatus status = checkpoint.restore(folder_ / "ckpt-1");
  status.assert_existing_objects_matched();
  EXPECT_TRUE(throws<FailedPrecondition>(
      [&] { status.assert_consumed(); },
      {"ckpt-1", "model/layer-0/kernel", "model/layer-0/bias", "no object has taken"}));

  const Trackable layer;
  const Variable kernel = variable({0, 0});
  layer.track("kernel", kernel);
  model.track("layer-0", layer);
  EXPECT_EQ(value(kernel), (Floats{1, 2}));

  std::filesystem::remove_all(folder_.path());  // Nothing of it is needed by name any more.
  const Variable bias = variable({0});
  layer.track("bias", bias);
  EXPECT_EQ(value(bias), (Floats{3}));
  status.assert_consumed();
}

TEST_F(CheckpointTest, TheLastRestoreDecidesWhatLateVariablesGet) {
  const Variable a = variable({1});
  Checkpoint({{"a", a}}).write(folder_ / "one");
  set(a, {2});
  Checkpoint({{"a", a}}).write(folder_ / "two");
  const Trackable root;
  const Checkpoint checkpoint(root);
  checkpoint.restore(folder_ / "one").expect_partial();
  checkpoint.restore(folder_ / "two");
  const Variable late = variable({0});
  root.track("a", late);
  EXPECT_EQ(value(late), (Floats{2}));
}

TEST_F(CheckpointTest, WhatTheCheckpointLacksStaysAndIsNamedWhenAsked) {
  Checkpoint({{"a", variable({1})}}).write(folder_ / "c");
  const Variable b = variable({5});
  const Trackable root;
  root.track("a", variable({0}));
  root.track("b", b);
  root.track("spare", variable({6}), {.optional = true});
  const CheckpointStatus status = Checkpoint(root).restore(folder_ / "c");
  EXPECT_EQ(value(b), (Floats{5}));
  EXPECT_TRUE(throws<FailedPrecondition>([&] { status.assert_existing_objects_matched(); },
                                         {"has no values for b"}));
}

TEST_F(CheckpointTest, AnotherShapeOrTypeIsRefusedAndNothingChanges) {
  Checkpoint({{"a", variable({1, 2})}, {"b", variable({3})}}).write(folder_ / "c");
  const Variable a = variable({8, 9});
  const Variable longer = variable({7, 7}, "weights");
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        Checkpoint({{"a", a}, {"b", longer}}).restore(folder_ / "c");
      },
      {"restore:", "key 'b/.ATTRIBUTES/VARIABLE_VALUE'", "float32[1] in the checkpoint",
       "variable 'weights' is float32[2]"}));
  EXPECT_EQ(value(a), (Floats{8, 9}));
  const Variable wide{Tensor::from<double>({3}, {1})};
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        Checkpoint({{"b", wide}}).restore(folder_ / "c");
      },
      {"float32[1]", "float64[1]"}));
}

TEST_F(CheckpointTest, OneThatDoesNotExistIsNotFound) {
  const Checkpoint checkpoint({{"a", variable({1})}});
  EXPECT_TRUE(throws<NotFound>([&] { checkpoint.restore(folder_ / "none"); }, {"none.index"}));
  EXPECT_TRUE(throws<NotFound>([&] { load_checkpoint(folder_.path()); }, {"has none"}));
}

TEST_F(CheckpointTest, AFolderThatCannotBeMadeIsUnavailableAndTheCounterStays) {
  std::ofstream(folder_ / "file") << "x";
  const Checkpoint checkpoint({{"a", variable({1})}});
  EXPECT_TRUE(throws<Unavailable>([&] { checkpoint.save(folder_ / "file" / "ckpt"); },
                                  {"save:", "file", "cannot be made"}));
  EXPECT_EQ(checkpoint.save_counter(), 0);
}

TEST_F(CheckpointTest, ItsOwnCounterHasAName) {
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        Checkpoint({{"save_counter", variable({1})}});
      },
      {"save_counter"}));
  const Trackable root;
  const Checkpoint first(root);
  const Checkpoint second(root);
  first.save(folder_ / "c");
  EXPECT_EQ(second.save_counter(), 1);
}

TEST_F(CheckpointTest, VariablesOnADeviceWithMemoryOfItsOwnComeBackToo) {
  devices::test::add_test_gpu({.delay = std::chrono::microseconds(200)});
  const Variable v = variable({1, 2});
  EXPECT_EQ(v.value().device(), "/device:GPU:0");
  const Checkpoint checkpoint({{"v", v}});
  v.assign_add(Tensor::from<float>({10, 10}, {2}));
  checkpoint.write(folder_ / "c");
  set(v, {0, 0});
  checkpoint.restore(folder_ / "c");
  EXPECT_EQ(value(v), (Floats{11, 12}));
}

TEST_F(CheckpointTest, EveryComponentOfAVariableIsRestored) {
  devices::test::add_test_gpu();
  const auto find = [](const char* name) { return devices::find_device(DeviceSpec::parse(name)); };
  const StoreScope scope(std::make_shared<Store>(std::vector{find("/cpu:0"), find("/gpu:0")}));
  const Variable v = variable({1, 2});
  const Checkpoint checkpoint({{"v", v}});
  checkpoint.write(folder_ / "c");
  set(v, {0, 0});
  checkpoint.restore(folder_ / "c");
  for (const char* name : {"/cpu:0", "/gpu:0"}) {
    const auto on_it = device(name);
    EXPECT_EQ((v * 2.0).to_vector<float>(), (Floats{2, 4})) << name;
  }
}

TEST_F(CheckpointTest, WhileAFaultStandsNothingIsSavedOrRestored) {
  devices::test::add_test_gpu();
  const Variable v = variable({1, 2});
  const Checkpoint checkpoint({{"v", v}});
  checkpoint.write(folder_ / "c");
  set(v, {3, 4});
  const auto leave_fault = [&] { gather(v.value(), Tensor::from(std::vector<int32_t>{7}, {1})); };
  leave_fault();
  EXPECT_TRUE(throws<InvalidArgument>([&] { checkpoint.restore(folder_ / "c"); }, {"gather: "}));
  EXPECT_EQ(value(v), (Floats{3, 4}));
  leave_fault();
  EXPECT_TRUE(throws<InvalidArgument>([&] { checkpoint.write(folder_ / "d"); }, {"gather: "}));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "d.index"));
  checkpoint.restore(folder_ / "c");
  EXPECT_EQ(value(v), (Floats{1, 2}));
}

TEST_F(CheckpointTest, LargeVariablesOfADevicePassInPieces) {
  devices::test::add_test_gpu({.delay = std::chrono::microseconds(100), .random_delay = true});
  const auto find = [](const char* name) { return devices::find_device(DeviceSpec::parse(name)); };
  Floats values(900'001);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000);
  for (const auto& names : {Names{"/gpu:0"}, Names{"/cpu:0", "/gpu:0"}}) {
    std::vector<devices::DevicePtr> devices;
    for (const std::string& name : names) devices.push_back(find(name.c_str()));
    const StoreScope scope(std::make_shared<Store>(devices));
    const Variable v = variable(values);
    const Checkpoint checkpoint({{"v", v}});
    const auto path = checkpoint.save(folder_ / "large");
    set(v, Floats(values.size()));
    checkpoint.restore(path);
    for (const std::string& name : names) {
      const auto here = device(name);
      EXPECT_TRUE(value(v) == values) << name;
    }
  }
}

TEST_F(CheckpointTest, MirroredVariablesAreSavedOnceAndSeenByAllReplicas) {
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  const distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  const Variable v = [&] {
    const auto scope = strategy.scope();
    return variable({1, 2});
  }();
  const Checkpoint checkpoint({{"v", v}});
  checkpoint.write(folder_ / "c");
  EXPECT_EQ(load_checkpoint(folder_ / "c").keys().size(), 3u);
  set(v, {0, 0});
  checkpoint.restore(folder_ / "c");
  EXPECT_EQ(value(v), (Floats{1, 2}));
}

TEST_F(CheckpointTest, LargeVariablesAreReadOnSeveralThreads) {
  const Tensor initial = random_normal({1500, 1000});
  const Variable v(initial);
  const Checkpoint checkpoint({{"v", v}});
  checkpoint.write(folder_ / "c");
  v.assign(zeros({1500, 1000}));
  checkpoint.restore(folder_ / "c");
  EXPECT_EQ(v.value().to_vector<float>(), initial.to_vector<float>());
}

}  // namespace
}  // namespace tandem::train
