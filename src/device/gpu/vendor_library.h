/// The seam for libraries of a device's vendor (cuBLAS, cuDNN): matrix products and convolutions on
/// a stream. Kernels use them through the providers in kernels/gpu.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tandem/dtype.h"

namespace tandem::devices::gpu {

class Stream;

/// What the device calls an allocation.
using Memory = void*;

struct Location {
  Memory memory = nullptr;
  size_t offset = 0;
};

/// C = op(A) * op(B), row-major: op(A) is m x k, op(B) is k x n, C is m x n. A leading dimension is
/// the distance between two rows in memory, in elements: of A as it lies there, k x m if
/// transposed.
struct MatrixProduct {
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

class ProductLibrary {
 public:
  virtual ~ProductLibrary() = default;

  /// Makes what products on `stream` need, which would else be made by the first of them.
  virtual void open(Stream& stream) = 0;

  /// Issues the products, of float32 or float64.
  virtual void multiply(Stream& stream, DType dtype, const MatrixProduct& shape, const Location& a,
                        const Location& b, const Location& c) = 0;

  /// Issues the product plus the bias, with an element of it for each column, in one call. False
  /// where the library cannot: then nothing has been issued.
  virtual bool multiply_with_bias(Stream& stream, DType dtype, const MatrixProduct& shape,
                                  const Location& a, const Location& b, const Location& bias,
                                  const Location& c) = 0;

  /// "cublas"
  virtual const char* name() const = 0;
};

/// A convolution of images [images, height, width, in] with a filter [out, height, width,
/// in / groups], or one of its gradients. Images are padded by as many zeros at both ends.
struct LibraryConvolution {
  enum class Computes { result, image_gradient, filter_gradient };
  struct Axis {
    int64_t image = 0, filter = 0, result = 0;
    int64_t stride = 1, dilation = 1, padding = 0;
    auto operator<=>(const Axis&) const = default;
  };

  Computes computes = Computes::result;
  DType dtype = DType::float32;
  int64_t images = 0, in = 0, out = 0, groups = 1;
  Axis vertical{}, horizontal{};

  auto operator<=>(const LibraryConvolution&) const = default;
};

/// A convolution of one shape, with the algorithm that the library has chosen for it.
class PreparedConvolution {
 public:
  virtual ~PreparedConvolution() = default;

  /// Issues it. Of image, filter and result (or their gradients) the one that is computed is
  /// overwritten.
  virtual void run(Stream& stream, const Location& image, const Location& filter,
                   const Location& result, const Location& workspace) const = 0;

  /// Issues relu(result + bias) in one, with an element of the bias for each channel. Of a
  /// convolution's result; false where the library cannot: then nothing has been issued.
  virtual bool run_with_bias_and_relu(Stream& stream, const Location& image, const Location& filter,
                                      const Location& bias, const Location& result,
                                      const Location& workspace) const = 0;
  virtual size_t workspace_bytes() const = 0;
};

class ConvolutionLibrary {
 public:
  virtual ~ConvolutionLibrary() = default;

  /// As ProductLibrary::open.
  virtual void open(Stream& stream) = 0;

  /// Null where the library has nothing for the shape. The choice is made once for each shape.
  virtual std::shared_ptr<const PreparedConvolution> prepare(const LibraryConvolution& shape) = 0;

  /// "cudnn"
  virtual const char* name() const = 0;
};

}  // namespace tandem::devices::gpu
