/// Who multiplies on a device: our own kernels, unless `tandem tune` has measured that another
/// provider is faster there. What it found is kept in the user's cache folder, with the kernels.
#pragma once

#include <optional>
#include <string>

#include "device/gpu/driver.h"
#include "device/gpu/kernel_cache.h"

namespace tandem::kernels::gpu {

/// "own", or "clblast". Looked up once in a process for each kind of device.
std::string chosen_products(const devices::gpu::Description& device);

/// For products that are prepared from now on in this process.
void choose_products(const devices::gpu::Description& device, const std::string& provider);

/// The same for processes that start later.
void keep_products(const devices::gpu::Description& device, const std::string& provider,
                   devices::gpu::KernelCache& cache);

/// What was kept; nothing where nobody has measured.
std::optional<std::string> kept_products(const devices::gpu::Description& device,
                                         const devices::gpu::KernelCache& cache);

}  // namespace tandem::kernels::gpu
