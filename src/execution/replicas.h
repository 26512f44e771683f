/// The replicas that run a function together.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "device/logical_device.h"
#include "op/group.h"
#include "tandem/cross_device_reduction.h"

namespace tandem::graph {

struct Agreement;
struct Graph;
struct Pipeline;

struct Replicas {
  /// The device of each replica of this process. A device may have several replicas.
  std::vector<devices::DevicePtr> devices{};
  uint64_t owner = 0;            ///< Whose variables they may use; see StoreBlock::owner.
  bool single_threaded = false;  ///< Each replica is one thread, however many its device has.
  /// Programs of different teams run at the same time, on one device, too; those of one take turns
  /// where they write variables.
  int team = 0;
  devices::DevicePtr central{};  ///< Where the variables are, if not beside each replica.
  distribute::CrossDeviceReduction reduction = distribute::CrossDeviceReduction::automatic;

  /// The processes whose replicas run together; null: this one alone.
  std::shared_ptr<op::Group> group{};
  int first = 0;             ///< The number of this process's first replica among all,
  int in_all_processes = 0;  ///< and how many there are, where some are elsewhere.

  /// So many neighbours have the same rows of the batch, each with its parts of some weights.
  int model = 1;
  std::shared_ptr<op::Group> along_model{};  ///< See Runners.
  std::shared_ptr<op::Group> along_data{};

  /// What their programs' last sums carry along; may be null.
  std::shared_ptr<Agreement> agreement{};
  size_t bucket_bytes = size_t{1} << 20;  ///< See Runners.

  /// Where it is set, the replicas are micro-batches: they run one after another, each through all
  /// of its stages. `devices` then has the first stage's for each of them.
  std::shared_ptr<const Pipeline> pipeline{};
  /// What is done to each graph that is traced for them before it is compiled; may be empty.
  std::function<void(Graph&)> adapt{};

  int local() const { return static_cast<int>(devices.size()); }
  int count() const { return in_all_processes > 0 ? in_all_processes : local(); }
};

using ReplicasPtr = std::shared_ptr<const Replicas>;

}  // namespace tandem::graph
