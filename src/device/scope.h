/// The device that the scopes of this thread ask for.
#pragma once

#include "device/device.h"

namespace tandem::devices {

/// Null outside of any scope. Throws NotFound when the scope names a device that does not exist.
const DevicePtr* scope_device();

}  // namespace tandem::devices
