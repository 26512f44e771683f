/// Replicas described by hand, for tests of how they run together: several devices, a central
/// device for the variables, a way to reduce.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "device/test/test_device.h"
#include "device/transfer.h"
#include "function/function_body.h"
#include "harness/fresh_devices.h"
#include "tandem/tandem.h"
#include "tensor/store.h"

namespace tandem::harness {

using Names = std::vector<std::string>;
using Doubles = std::vector<double>;

inline devices::DevicePtr find(const std::string& name) {
  return devices::find_device(DeviceSpec::parse(name));
}

struct Setting {
  Names devices;
  std::string central{};
  distribute::CrossDeviceReduction reduction = distribute::CrossDeviceReduction::automatic;
  bool single_threaded = false;

  std::string str() const {
    std::string text;
    for (const std::string& name : devices) text += name + " ";
    return text + "central '" + central + "' reduction " +
           std::to_string(static_cast<int>(reduction));
  }
};

/// Replicas described by hand, and the store of their variables.
class ReplicaGroup {
 public:
  explicit ReplicaGroup(const Setting& setting) {
    static std::atomic<uint64_t> owner{1'000'000};
    graph::Replicas described{.owner = ++owner,
                              .single_threaded = setting.single_threaded,
                              .reduction = setting.reduction};
    for (const std::string& name : setting.devices) described.devices.push_back(find(name));
    if (!setting.central.empty()) described.central = find(setting.central);
    store_ = std::make_shared<Store>(
        described.central ? std::vector{described.central} : described.devices, described.owner);
    replicas_ = std::make_shared<graph::Replicas>(std::move(described));
  }

  const std::shared_ptr<Store>& store() const { return store_; }
  int count() const { return replicas_->count(); }

  /// The program for a batch that is split over the replicas.
  graph::ConcreteFunctionPtr trace(const FlatFunction& f, const Tensors& batch) const {
    return f.body()->find_or_compile(
        {.tensors = split(batch), .batch = graph::Arguments::Batch::by_replica},
        {.replicas = replicas_});
  }

  /// The results of each replica for its rows of the arguments.
  std::vector<Tensors> run(const FlatFunction& f, const Tensors& batch) const {
    graph::Shards shards;
    for (int r = 0; r < count(); ++r) {
      shards.push_back(graph::shard_of(batch[0].shape()[0], r, count()));
    }
    const graph::Results ran =
        f.body()->run(*trace(f, batch), {.tensors = split(batch), .shards = shards});
    std::vector<Tensors> results(static_cast<size_t>(count()));
    for (int r = 0; r < count(); ++r) {
      for (size_t i = 0; i < ran.count(); ++i) {
        results[static_cast<size_t>(r)].push_back(ran.at(r, i));
      }
    }
    reduction_ = ran.execution().reduction();
    return results;
  }

  /// The sum of the replicas' values of a scalar result.
  double total(const FlatFunction& f, const Tensors& batch) const {
    double sum = 0;
    for (const Tensors& results : run(f, batch)) sum += results[0].item<double>();
    return sum;
  }

  /// How the last function that ran summed its gradients.
  const std::string& reduction() const { return reduction_; }

 private:
  static graph::ArgumentList split(const Tensors& batch) {
    graph::ArgumentList list;
    for (const Tensor& tensor : batch) list.push_back({&tensor, graph::Argument::Kind::rows});
    return list;
  }

  graph::ReplicasPtr replicas_;
  std::shared_ptr<Store> store_;
  mutable std::string reduction_;
};

/// A variable as each memory space has it.
inline std::vector<Doubles> components(const Variable& variable) {
  std::vector<Doubles> all;
  const StoreRange& range = variable.body()->range;
  for (const auto& component : range.block->components()) {
    auto& device = *component->device();
    Doubles values(static_cast<size_t>(range.count));
    char* to = reinterpret_cast<char*>(values.data());
    devices::read_in_chunks(
        device, range.data(device), values.size() * sizeof(double),
        [&](const char* chunk, size_t bytes) { to = std::copy_n(chunk, bytes, to); });
    all.push_back(std::move(values));
  }
  return all;
}

/// All of them hold the same bits, and that is what is read.
inline void expect_same_components(const Variables& variables) {
  for (const Variable& variable : variables) {
    if (variable.dtype() != DType::float64) continue;
    const auto all = components(variable);
    for (const Doubles& one : all) EXPECT_EQ(one, all[0]) << variable.name();
    EXPECT_EQ(variable.value().to_vector<double>(), all[0]) << variable.name();
  }
}

/// Two GPUs and four logical CPUs.
class SpreadDevices : public FreshDevices {
 protected:
  void SetUp() override { devices_with({}, {}); }
  void TearDown() override {
    op::set_instruction_hook({});
    FreshDevices::TearDown();
  }

  static void devices_with(devices::test::TestDeviceOptions first,
                           devices::test::TestDeviceOptions second) {
    restart();
    second.index = 1;
    devices::test::add_test_gpu(first);
    devices::test::add_test_gpu(second);
    config::set_logical_cpus({{.threads = 1}, {.threads = 2}, {.threads = 1}, {.threads = 1}});
  }
};

}  // namespace tandem::harness
