/// A product or a convolution with what follows it (kernels/gpu/elementwise/gpu_epilogue.h).
#pragma once

#include "kernels/gpu/gpu_kernel.h"

namespace tandem::kernels::gpu {

/// Runs `product`, then the epilogue of the signature on its result.
ExecutablePtr with_epilogue(ExecutablePtr product, const Signature& signature,
                            const Device& device);

}  // namespace tandem::kernels::gpu
