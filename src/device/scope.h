/// The device that the scopes of this thread ask for.
#pragma once

#include "device/logical_device.h"

namespace tandem::devices {

/// Null outside of any scope. A device that does not exist is NotFound, or with soft placement the
/// host. Throws FailedPrecondition when a scope was left out of order.
const DevicePtr* scope_device();

/// True when the scope of this thread names a device of this process that does not exist. Another
/// task's is an error, also with soft placement.
bool scope_device_is_missing();

}  // namespace tandem::devices
