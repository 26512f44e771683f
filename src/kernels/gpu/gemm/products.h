/// Matrix products on a GPU: C = op(A) * op(B), row-major, float32 or float64, one or a batch of
/// them (device/gpu/vendor_library.h). This is the seam for those who provide products; matmul,
/// convolution and attention use it.
#pragma once

#include <memory>

#include "kernels/gpu/gpu_kernel.h"

namespace tandem::kernels::gpu {

using ProductShape = devices::gpu::MatrixProduct;

/// Who multiplies on one device, elements of one dtype. Any number of threads may use it at once.
class Products {
 public:
  virtual ~Products() = default;

  /// Issues the product. A, B and C are addresses of the launch's device; `workspace` is the byte
  /// of the launch's workspace from which on workspace_bytes(shape) bytes are free.
  virtual void multiply(const Launch& launch, const ProductShape& shape, const void* a,
                        const void* b, void* c, size_t workspace) const = 0;
  /// Issues the product plus the bias, which has an element for each column. False where the
  /// provider has none in one with the product: then nothing has been issued.
  virtual bool multiply_with_bias(const Launch&, const ProductShape&, const void* /*a*/,
                                  const void* /*b*/, const void* /*bias*/, void* /*c*/) const {
    return false;
  }
  virtual size_t workspace_bytes(const ProductShape& shape) const = 0;
  virtual const char* provider() const = 0;
};
using ProductsPtr = std::shared_ptr<const Products>;

/// The provider for a device.
ProductsPtr products_for(const Device& device, DType dtype);

/// The library of the device's vendor; null where there is none.
ProductsPtr library_products(const Device& device, DType dtype);

/// Tandem's own kernels, which run everywhere.
ProductsPtr own_products(const Device& device, DType dtype);

/// CLBlast; null where the device is none of OpenCL's, or the library is not installed.
ProductsPtr clblast_products(const Device& device, DType dtype);

}  // namespace tandem::kernels::gpu
