/// A product or a convolution with what follows it (kernels/gpu/elementwise/gpu_epilogue.h).
#pragma once

#include "kernels/gpu/gpu_kernel.h"

namespace tandem::kernels::gpu {

/// The call is a product with an epilogue.
inline bool is_fused(const Signature& signature) {
  return signature.op->name.starts_with("fused_");
}

/// The epilogue is product + bias, or relu(product + bias), which libraries know.
bool is_bias(const Signature& signature);
bool is_bias_and_relu(const Signature& signature);

/// Runs `product`, then the epilogue of the signature on its result.
ExecutablePtr with_epilogue(ExecutablePtr product, const Signature& signature,
                            const Device& device);

}  // namespace tandem::kernels::gpu
