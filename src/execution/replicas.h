/// The replicas that run a function together.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "device/logical_device.h"
#include "tandem/cross_device_reduction.h"

namespace tandem::graph {

struct Replicas {
  /// The device of each replica. A device may have several replicas.
  std::vector<devices::DevicePtr> devices{};
  uint64_t owner = 0;            ///< Whose variables they may use; see StoreBlock::owner.
  bool single_threaded = false;  ///< Each replica is one thread, however many its device has.
  devices::DevicePtr central{};  ///< Where the variables are, if not beside each replica.
  distribute::CrossDeviceReduction reduction = distribute::CrossDeviceReduction::automatic;

  int count() const { return static_cast<int>(devices.size()); }
};

using ReplicasPtr = std::shared_ptr<const Replicas>;

}  // namespace tandem::graph
