/// The devices of OpenCL.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/gpu/driver.h"

namespace tandem::devices::opencl {

struct DriverOptions {
  /// The devices of a platform share a context, so that they reach each other.
  bool shared_contexts = true;
};

/// What a device must have, as OpenCL tells it.
struct Requirements {
  std::string extensions;
  bool has_compiler = true;
  size_t group_size = 0;  ///< The most items of a group.
};

/// What is missing; empty where nothing is.
std::string why_unusable(const Requirements& device);

/// All devices of all platforms, GPUs first. Opens the platforms, which loads their libraries;
/// contexts are opened by the first use of a device. They are the same ones each time.
std::vector<gpu::DriverPtr> find_drivers(const DriverOptions& options = {});

}  // namespace tandem::devices::opencl
