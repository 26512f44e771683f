// Chooses who computes a convolution.
#include "kernels/gpu/convolution/gpu_convolutions.h"
#include "kernels/gpu/gemm/fused_product.h"

namespace tandem::kernels::gpu {
namespace {

ExecutablePtr prepare(ConvolutionPass pass, const Signature& s, const Device& device) {
  const ConvolutionShape shape = ConvolutionShape::of(s);
  const auto followed = [&](ExecutablePtr product) {
    return is_fused(s) ? with_epilogue(std::move(product), s, device) : product;
  };
  if (shape.images == 0 || shape.image_elements() == 0 || shape.result_elements() == 0) {
    // Where there is nothing to multiply, all sums are zero.
    return followed(op::executable([bytes = s.outputs[0].bytes()](const Launch& launch) {
      if (bytes > 0) launch.queue->fill(launch.out<void>(0), 0, bytes);
    }));
  }
  if (auto found = prepare_depthwise_convolution(pass, shape, device)) return followed(found);
  if (auto found = prepare_library_convolution(pass, s, shape, device)) return found;
  return followed(prepare_patch_convolution(pass, shape, device));
}

}  // namespace

void register_convolution(op::BackendKernels& kernels) {
  const std::vector<DType> floating{DType::float32, DType::float64};
  const auto add = [&](const char* name, ConvolutionPass pass) {
    add_kernel(kernels, name, floating, [pass](const Signature& s, const Device& device) {
      return prepare(pass, s, device);
    });
  };
  add("conv2d", ConvolutionPass::forward);
  add("conv2d_backprop_input", ConvolutionPass::backprop_input);
  add("conv2d_backprop_filter", ConvolutionPass::backprop_filter);
  add("fused_conv2d", ConvolutionPass::forward);
}

}  // namespace tandem::kernels::gpu
