/// The devices of OpenCL.
#pragma once

#include <memory>
#include <vector>

#include "device/gpu/driver.h"

namespace tandem::devices::opencl {

struct DriverOptions {
  /// The devices of a platform share a context, so that they reach each other.
  bool shared_contexts = true;
};

/// All devices of all platforms, GPUs first. Opens the platforms, which loads their libraries;
/// contexts are opened by the first use of a device.
std::vector<gpu::DriverPtr> find_drivers(const DriverOptions& options = {});

}  // namespace tandem::devices::opencl
