/// Calls of a vendor's library (device/gpu/vendor_library.h) among an op's commands.
#pragma once

#include <functional>

#include "kernels/gpu/gpu_kernel.h"

namespace tandem::kernels::gpu {

/// Issues what `call` puts on the stream, in order with the queue's other commands and under the
/// op's name.
void issue_library_call(const Launch& launch,
                        const std::function<void(devices::gpu::Stream&)>& call);

}  // namespace tandem::kernels::gpu
