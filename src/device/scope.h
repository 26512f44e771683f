/// The device that the scopes of this thread ask for.
#pragma once

#include "device/logical_device.h"

namespace tandem::devices {

/// Null outside of any scope. A device that does not exist is NotFound, or with soft placement the
/// host. Throws FailedPrecondition when a scope was left out of order.
const DevicePtr* scope_device();

/// True when the scope of this thread names a device that does not exist.
bool scope_device_is_missing();

}  // namespace tandem::devices
