/// Makes devices of what a driver has found.
#pragma once

#include <optional>

#include "device/gpu/driver.h"
#include "device/inventory.h"

namespace tandem::devices::gpu {

/// A GPU of `backend`, as the inventory takes it. `sharing` devices share the memory that the
/// driver tells of. Nothing is opened before it is used.
Physical physical_gpu(const std::string& backend, DriverPtr driver, int sharing = 1);

/// The form in which kernels are compiled for devices that are made from now on; the one that the
/// driver's kind of device is best with unless set. For tests: real GPUs run the parallel form.
void set_kernel_form(std::optional<KernelForm> form);

}  // namespace tandem::devices::gpu
