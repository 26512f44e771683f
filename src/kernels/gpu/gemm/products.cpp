#include "kernels/gpu/gemm/products.h"

namespace tandem::kernels::gpu {

ProductsPtr products_for(const Device& device, DType dtype) {
  if (auto found = library_products(device, dtype)) return found;
  return own_products(device, dtype);
}

}  // namespace tandem::kernels::gpu
