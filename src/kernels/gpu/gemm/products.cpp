#include "kernels/gpu/gemm/products.h"

#include "kernels/gpu/gemm/product_choice.h"

namespace tandem::kernels::gpu {

ProductsPtr products_for(const Device& device, DType dtype) {
  if (auto found = library_products(device, dtype)) return found;
  const std::string chosen = chosen_products(queue_of(device).compiler().description());
  ProductsPtr other = chosen == "clblast" ? clblast_products(device, dtype) : nullptr;
  return other ? other : own_products(device, dtype);
}

}  // namespace tandem::kernels::gpu
