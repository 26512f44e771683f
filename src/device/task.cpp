#include "device/task.h"

#include "device/inventory.h"

namespace tandem::devices {

void set_task(const std::string& job, int task) { Inventory::instance().set_task(job, task); }

std::string own_task() {
  DeviceSpec spec = Inventory::instance().full_name({});
  spec.replica.reset();
  return spec.str();
}

std::string full_name(const Device& device) {
  return Inventory::instance().given_name(device.spec()).str();
}

bool is_of_another_task(const DeviceSpec& spec) { return !Inventory::instance().is_own(spec); }

}  // namespace tandem::devices
