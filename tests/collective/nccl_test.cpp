// Sums of GPUs by NCCL, on doubles of CUDA devices: the values, who is asked for them and why, and
// what happens when a device does not come, a call fails or a label is bad.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <thread>

#include "collective/device_group.h"
#include "device/cuda/cuda_api.h"
#include "harness/classifier.h"
#include "harness/cuda.h"
#include "harness/opencl.h"
#include "harness/replica_group.h"
#include "harness/temp_folder.h"
#include "harness/throws.h"

namespace tandem::collective {
namespace {

using harness::Classifier;
using harness::CudaDoubleSetting;
using harness::Doubles;
using harness::expect_same_components;
using harness::Names;
using harness::throws;
using Group = harness::ReplicaGroup;
namespace cuda_double = harness::cuda_double;

const Names kTwo = {"/GPU:0", "/GPU:1"};
const Names kFour = {"/GPU:0", "/GPU:1", "/GPU:2", "/GPU:3"};

class NcclTest : public harness::FreshDevices {
 protected:
  void SetUp() override {
    TANDEM_SKIP_WITHOUT_NVRTC();
    if (harness::uses_real_cuda()) GTEST_SKIP() << "doubles are told how to be linked";
    FreshDevices::SetUp();
    cuda_double::set("devices", 4);
    complaints_ = cuda_double::count("complaints");
    harness::use_cuda();
  }
  void TearDown() override {
    if (IsSkipped()) return;
    FreshDevices::TearDown();
    EXPECT_EQ(cuda_double::count("complaints"), complaints_);
    EXPECT_EQ(cuda_double::count("communicators"), 0);
    cuda_double::set("devices", 2);
  }

 private:
  long long complaints_ = 0;
};

std::vector<devices::DevicePtr> devices_of(const Names& names) {
  std::vector<devices::DevicePtr> found;
  for (const std::string& name : names) found.push_back(harness::find(name));
  return found;
}

/// Counts how often something happens on the doubles while it lives.
class Counted {
 public:
  explicit Counted(const char* name) : name_(name), before_(cuda_double::count(name)) {}
  long long get() const { return cuda_double::count(name_) - before_; }

 private:
  const char* const name_;
  const long long before_;
};

/// The value of each device, the sum of which is to be 1 + 2 + ..
template <class T>
void expect_sums(const std::vector<devices::DevicePtr>& devices, int64_t count, bool in_place) {
  const auto group = open_device_group(devices);
  Tensors inputs;
  Tensors outputs;
  std::vector<void*> from;
  std::vector<void*> to;
  std::vector<devices::Event> after;
  std::vector<devices::Event> done(devices.size());
  double total = 0;
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    const auto scope = device(devices[rank]->name());
    total += static_cast<double>(rank + 1);
    inputs.push_back(fill({count}, static_cast<double>(rank + 1), dtype_of<T>) + T{0});
    outputs.push_back(in_place ? inputs.back() : zeros({count}, dtype_of<T>) + T{0});
    from.push_back(inputs.back().body()->data());
    to.push_back(outputs.back().body()->data());
    after.push_back(devices[rank]->queue().record());
  }
  const DeviceGroup::Operand operand{dtype_of<T>, static_cast<size_t>(count), from, to};
  group->all_reduce({&operand, 1}, after, done);
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    done[rank].wait(config::wait_deadline());
    EXPECT_EQ(outputs[rank].to_vector<T>(),
              std::vector<T>(static_cast<size_t>(count), static_cast<T>(total)))
        << devices[rank]->name();
  }
}

TEST_F(NcclTest, SumsAreThoseOfAllDevicesInPlaceAndElsewhere) {
  for (const bool in_place : {false, true}) {
    expect_sums<float>(devices_of(kTwo), 1000, in_place);
    expect_sums<double>(devices_of(kFour), 7, in_place);
    expect_sums<int64_t>(devices_of({"/GPU:3", "/GPU:1", "/GPU:0"}), 1, in_place);
  }
}

TEST_F(NcclTest, TheSameDevicesHaveOneGroup) {
  const auto group = open_device_group(devices_of(kTwo));
  EXPECT_EQ(open_device_group(devices_of(kTwo)), group);
  EXPECT_NE(open_device_group(devices_of({"/GPU:1", "/GPU:0"})), group);
  group->abort();
  EXPECT_NE(open_device_group(devices_of(kTwo)), group);
}

constexpr int64_t kColumns = 12;

Tensors batch_of(int64_t rows) {
  return {harness::features<double>(rows, kColumns), harness::labels<double>(rows)};
}

/// The losses of a few steps, then all weights. One of the layers is a bucket.
struct Trained {
  Doubles values;
  std::string reduction;
};
Trained train_on(const harness::Setting& setting) {
  const Group group(setting);
  const StoreScope scope(group.store());
  const Classifier<double> model({kColumns, 360, 370, 10}, 0.001);
  const auto step = model.compiled_step();
  Trained trained;
  for (int64_t rows : {4, 3, 1}) trained.values.push_back(group.total(step, batch_of(rows)));
  for (const Variable& variable : model.variables) {
    const Doubles values = variable.value().to_vector<double>();
    trained.values.insert(trained.values.end(), values.begin(), values.end());
  }
  expect_same_components(model.variables);
  trained.reduction = group.reduction();
  return trained;
}

void expect_near(const Doubles& values, const Doubles& wanted) {
  ASSERT_EQ(values.size(), wanted.size());
  double worst = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_FALSE(std::isnan(values[i])) << i;
    worst = std::max(worst, std::abs(values[i] - wanted[i]));
  }
  EXPECT_LT(worst, 1e-10);
}

TEST_F(NcclTest, TrainingIsThatOfOneDeviceBucketsIncluded) {
  const Doubles one = train_on({.devices = {"/CPU:0"}}).values;
  const Counted sums("sums");
  const Trained two = train_on({.devices = kTwo});
  EXPECT_GT(sums.get(), 0);
  expect_near(two.values, one);
  EXPECT_NE(two.reduction.find("NCCL, since all GPUs are linked by PCIe; 1.1 MB of it in buckets"),
            std::string::npos)
      << two.reduction;
  expect_near(train_on({.devices = {"/GPU:2", "/GPU:0", "/GPU:1"}}).values, one);
}

TEST_F(NcclTest, TheChoiceFollowsTheLinksAndIsExplained) {
  const auto explained = [](const distribute::MirroredOptions& options = {}) {
    return distribute::MirroredStrategy(kTwo, options).explain();
  };
  const auto says = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  says(explained(), "gradients are summed by NCCL, since all GPUs are linked by PCIe\n");
  says(explained({.reproducible_shards = 2}),
       "not by NCCL, since reproducible sums have an order of their own\n");
  says(explained({.reduction = distribute::CrossDeviceReduction::ranges}),
       "gradients cross memory spaces: by ranges, as the options say\n");
  {
    const CudaDoubleSetting fast("peers", 2, 1);
    says(explained(), "by NCCL, since all GPUs are linked by NVLink\n");
  }
  const CudaDoubleSetting none("peers", 0, 1);
  says(explained(),
       "not by NCCL, since /device:GPU:0 and /device:GPU:1 reach each other through the host "
       "only\n");
  const Counted sums("sums");
  const Trained trained = train_on({.devices = kTwo});
  EXPECT_EQ(sums.get(), 0);
  says(trained.reduction, "ranges, since more than");
  says(trained.reduction, "; not by NCCL, since /device:GPU:0 and");
}

TEST_F(NcclTest, ReproducibleSumsAreOurOwn) {
  const Counted sums("sums");
  train_on({.devices = kTwo, .single_threaded = true});
  EXPECT_EQ(sums.get(), 0);
}

TEST_F(NcclTest, ADeviceThatDoesNotComeIsALateOneAndTrainingGoesOn) {
  const Group group({.devices = kTwo});
  const StoreScope scope(group.store());
  const Classifier<double> model({kColumns, 10, 10});
  const auto step = model.compiled_step();
  group.total(step, batch_of(4));
  const Counted aborts("aborts");
  config::set_wait_deadline(std::chrono::milliseconds(500));
  cuda_double::fail("arrival", 2, 1);
  EXPECT_TRUE(throws<DeadlineExceeded>(
      [&] {
        for (int i = 0; i < 4; ++i) group.run(step, batch_of(4));
      },
      {"did not finish its work within 0.5 s"}));
  EXPECT_EQ(aborts.get(), 2);
  config::set_wait_deadline(std::chrono::seconds(120));
  const double before = group.total(step, batch_of(4));
  EXPECT_LT(group.total(step, batch_of(4)), before);
  expect_same_components(model.variables);
}

TEST_F(NcclTest, DevicesThatDoNotFindEachOtherAreNamedAndLaterTheyMay) {
  const Group group({.devices = kTwo});
  const StoreScope scope(group.store());
  const Classifier<double> model({kColumns, 10, 10});
  const auto step = model.compiled_step();
  const Counted aborts("aborts");
  config::set_wait_deadline(std::chrono::milliseconds(200));
  cuda_double::set("nccl_connects", 0);
  EXPECT_TRUE(throws<DeadlineExceeded>(
      [&] { group.run(step, batch_of(4)); },
      {"ncclCommInitAll", "/device:GPU:0, /device:GPU:1", "within 0.2 s"}));
  config::set_wait_deadline(std::chrono::seconds(120));
  cuda_double::set("nccl_connects", 1);
  const double before = group.total(step, batch_of(4));
  EXPECT_LT(group.total(step, batch_of(4)), before);
  // What came too late is given back.
  while (aborts.get() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST_F(NcclTest, WhatTheLibraryRefusesIsNamed) {
  const Group group({.devices = kTwo});
  const StoreScope scope(group.store());
  const Classifier<double> model({kColumns, 10, 10});
  const auto step = model.compiled_step();
  const auto train = [&] { group.total(step, batch_of(4)); };
  cuda_double::fail("ncclCommInitAll", 1, 2);
  EXPECT_TRUE(throws<Unavailable>(train, {"ncclCommInitAll", "system error (2)"}));
  train();
  cuda_double::fail("ncclAllReduce", 2, 3);
  EXPECT_TRUE(throws<Unavailable>(train, {"ncclAllReduce", "internal error (3)"}));
  train();
  cuda_double::fail("ncclGroupEnd", 1, 1);
  EXPECT_TRUE(throws<Unavailable>(train, {"ncclGroupEnd", "unhandled cuda error (1)"}));
  train();
  cuda_double::fail("ncclCommGetAsyncError", 2, 6);
  EXPECT_TRUE(throws<Unavailable>(train, {"NCCL on /device:GPU:1", "remote process exited"}));
  train();
  expect_same_components(model.variables);
}

TEST_F(NcclTest, ABadRowOfOneDeviceStopsTheUpdateOfAll) {
  const Group group({.devices = kTwo});
  const StoreScope scope(group.store());
  const Classifier<double> model({kColumns, 10, 10});
  const auto step = function([&](const Tensor& x, const Tensor& y, const Tensor& rows) {
    const Tensor table = fill({2, 1}, 1.0, DType::float64);
    GradientTape tape;
    const Tensor loss = compute_average_loss(softmax_cross_entropy_with_logits(y, model.logits(x)) *
                                             reduce_sum(gather(table, rows), {.axes = {{1}}}));
    model.optimizer.apply_gradients(tape.gradient(loss, model.variables), model.variables);
    return loss;
  });
  const auto run = [&](int32_t last) {
    const Tensors batch = batch_of(4);
    return group.total(
        step, {batch[0], batch[1], Tensor::from(std::vector<int32_t>{0, 1, 1, last}, {4})});
  };
  run(0);
  const auto before = model.variables[0].value().to_vector<double>();
  EXPECT_THROW(run(7), Error);
  EXPECT_EQ(model.variables[0].value().to_vector<double>(), before);
  expect_same_components(model.variables);
  run(1);
  EXPECT_NE(model.variables[0].value().to_vector<double>(), before);
  expect_same_components(model.variables);
}

TEST(NcclMissing, GradientsAreSummedByOurOwnCopies) {
  TANDEM_SKIP_WITHOUT_NVRTC();
  namespace fs = std::filesystem;
  devices::reset_devices();
  {
    harness::share_kernels();
    const harness::TempFolder folder;
    for (const char* name : {"libcuda.so.1", "libcublas.so.13"}) {
      fs::create_symlink(fs::path(TANDEM_BINARY_DIR "/doubles/cuda/libcuda.so.1"),
                         fs::path(folder.path()) / name);
    }
    devices::cuda::set_library_folder(folder.path());
    ASSERT_EQ(config::list_physical_devices("GPU").size(), 2U);
    const std::string text = distribute::MirroredStrategy(kTwo).explain();
    EXPECT_NE(text.find("not by NCCL, since it was not found"), std::string::npos) << text;
    const Counted sums("sums");
    train_on({.devices = kTwo});
    EXPECT_EQ(sums.get(), 0);
    devices::cuda::set_library_folder("");
  }
  devices::reset_devices();
}

}  // namespace
}  // namespace tandem::collective
