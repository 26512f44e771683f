/// Sums over NVIDIA's GPUs of one process by NCCL: a communicator for each list of devices, with a
/// rank for each of them.
#pragma once

#include "collective/device_group.h"

namespace tandem::collective::nccl {

LibrarySums find_sums(const std::vector<devices::DevicePtr>& devices);
std::shared_ptr<DeviceGroup> open_group(const std::vector<devices::DevicePtr>& devices);

}  // namespace tandem::collective::nccl
