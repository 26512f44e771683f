#include "kernels/gpu/gemm/products.h"

namespace tandem::kernels::gpu {

ProductsPtr products_for(const Device& device, DType dtype) { return own_products(device, dtype); }

}  // namespace tandem::kernels::gpu
