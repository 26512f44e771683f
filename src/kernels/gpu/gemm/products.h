/// Matrix products on a GPU: C = op(A) * op(B), row-major, float32 or float64, one or a batch of
/// them. This is the seam for those who provide products; matmul, convolution and attention use it.
#pragma once

#include <memory>

#include "kernels/gpu/gpu_kernel.h"

namespace tandem::kernels::gpu {

/// op(A) is m x k, op(B) is k x n, C is m x n. A leading dimension is the distance between two rows
/// in memory, in elements: of A as it lies there, k x m if transposed.
struct ProductShape {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t lda = 0, ldb = 0, ldc = 0;

  /// A batch is `outer` times `inner` products, whose operands lie so many elements apart. The
  /// results do not overlap.
  struct Steps {
    int64_t outer = 0, inner = 0;
  };
  int64_t outer = 1, inner = 1;
  Steps a{}, b{}, c{};

  /// The products are added to C; else they overwrite it.
  bool adds = false;

  int64_t batch() const { return outer * inner; }
};

/// Who multiplies on one device, elements of one dtype. Any number of threads may use it at once.
class Products {
 public:
  virtual ~Products() = default;

  /// Issues the product. A, B and C are addresses of the launch's device; `workspace` is the byte
  /// of the launch's workspace from which on workspace_bytes(shape) bytes are free.
  virtual void multiply(const Launch& launch, const ProductShape& shape, const void* a,
                        const void* b, void* c, size_t workspace) const = 0;
  virtual size_t workspace_bytes(const ProductShape& shape) const = 0;
  virtual const char* provider() const = 0;
};
using ProductsPtr = std::shared_ptr<const Products>;

/// The provider for a device.
ProductsPtr products_for(const Device& device, DType dtype);

/// Tandem's own kernels, which run everywhere.
ProductsPtr own_products(const Device& device, DType dtype);

}  // namespace tandem::kernels::gpu
