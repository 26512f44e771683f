/// Convolutions on one core. As with gemm.h a team of threads splits the batch, and each thread
/// runs a convolution of its own images, so nothing here starts a thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/convolution_shape.h"
#include "kernels/cpu/cpu_kind.h"

namespace tandem::kernels::cpu {

/// Is told of pixels of a result, [count, out], soon after they are computed.
class Finish {
 public:
  virtual ~Finish() = default;
  virtual void pixels(void* first, int64_t count) const = 0;
};

/// A prepared convolution. Any number of threads may run it at once, each with its own workspace.
class Convolution {
 public:
  virtual ~Convolution() = default;

  /// Overwrites `out`. `workspace` has workspace_bytes() bytes, aligned to 64, and holds nothing
  /// between calls. Forward, `finish` hears of every pixel of the result once, unless it is null.
  virtual void run(const void* first, const void* second, void* out, void* workspace,
                   const Finish* finish = nullptr) const = 0;
  virtual size_t workspace_bytes() const { return 0; }
  virtual const char* provider() const = 0;
};

/// Chooses the provider: depthwise where it applies, sparse where it is faster, oneDNN for float32
/// where it has a kernel that is faster than patches, else those.
std::unique_ptr<Convolution> prepare_convolution(ConvolutionPass pass,
                                                 const ConvolutionShape& shape);

/// Whether patches are faster than oneDNN's kernels for float32.
bool patches_are_faster(ConvolutionPass pass, const ConvolutionShape& shape,
                        CpuKind cpu = this_cpu());

/// Returns null where oneDNN has no fast kernel.
std::unique_ptr<Convolution> prepare_onednn_convolution(ConvolutionPass pass,
                                                        const ConvolutionShape& shape);

/// Returns null unless each of several channels has one filter of its own.
std::unique_ptr<Convolution> prepare_depthwise_convolution(ConvolutionPass pass,
                                                           const ConvolutionShape& shape);

/// Gradients that leave out what is zero in the result's gradient, also where the image or the
/// filter is not finite. Null forward, and for groups and filters with gaps.
std::unique_ptr<Convolution> prepare_sparse_convolution(ConvolutionPass pass,
                                                        const ConvolutionShape& shape);

/// The patches of the image that the filter sees, as rows of a matrix, and products with it.
std::unique_ptr<Convolution> prepare_patch_convolution(ConvolutionPass pass,
                                                       const ConvolutionShape& shape);

}  // namespace tandem::kernels::cpu
