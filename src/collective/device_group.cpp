#include "collective/device_group.h"

#include "collective/nccl/nccl_group.h"

namespace tandem::collective {

LibrarySums find_library_sums(const std::vector<devices::DevicePtr>& devices) {
  return nccl::find_sums(devices);
}

std::shared_ptr<DeviceGroup> open_device_group(const std::vector<devices::DevicePtr>& devices) {
  return nccl::open_group(devices);
}

}  // namespace tandem::collective
