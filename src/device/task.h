/// Which task of a cluster this process is: devices are named after it.
#pragma once

#include <string>

#include "device/logical_device.h"

namespace tandem::devices {

/// From now on the devices of this process are those of this task: "worker" and 1. Their names
/// without job and task, and as those of `/job:localhost/task:0`, stay good.
void set_task(const std::string& job, int task);

/// "/job:worker/task:1", or "/job:localhost/task:0" outside of a cluster.
std::string own_task();

/// "/job:worker/task:1/device:CPU:0"; outside of a cluster the device's own name.
std::string full_name(const Device& device);

/// True for a name whose job or task is not this process's.
bool is_of_another_task(const DeviceSpec& spec);

}  // namespace tandem::devices
