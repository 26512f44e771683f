/// Which OpenCL devices are GPUs of the process.
#pragma once

#include <vector>

#include "device/gpu/driver.h"
#include "device/inventory.h"

namespace tandem::devices::opencl {

/// GPUs, and where `search` says so devices of OpenCL that are CPUs (PoCL), too. Where neither is
/// asked for nor can be there, no platform is opened. The environment variable TANDEM_OPENCL may be
/// `gpu`, which is as if it were not set, `cpu` or `off`. Throws InvalidArgument for another value.
Found find_devices(const Search& search);

/// What becomes of devices: those that can be used, with CPUs among them or not, and the others
/// with the reason.
Found devices_of(const std::vector<gpu::DriverPtr>& drivers, bool with_cpus);

}  // namespace tandem::devices::opencl
