// The list of the GPUs' kernels. A family that is not called here does not exist.
#include "op/registry.h"

namespace tandem::kernels::gpu {

void register_activation_slopes(op::BackendKernels& kernels);
void register_argmax(op::BackendKernels& kernels);
void register_assign(op::BackendKernels& kernels);
void register_attention(op::BackendKernels& kernels);
void register_batch_norm(op::BackendKernels& kernels);
void register_broadcast(op::BackendKernels& kernels);
void register_cast(op::BackendKernels& kernels);
void register_channel_statistics(op::BackendKernels& kernels);
void register_collective(op::BackendKernels& kernels);
void register_comparison(op::BackendKernels& kernels);
void register_convolution(op::BackendKernels& kernels);
void register_creation(op::BackendKernels& kernels);
void register_cumulative(op::BackendKernels& kernels);
void register_dropout(op::BackendKernels& kernels);
void register_formulas(op::BackendKernels& kernels);
void register_indexing(op::BackendKernels& kernels);
void register_joining(op::BackendKernels& kernels);
void register_layer_norm(op::BackendKernels& kernels);
void register_loss(op::BackendKernels& kernels);
void register_matmul(op::BackendKernels& kernels);
void register_optimizer(op::BackendKernels& kernels);
void register_parts(op::BackendKernels& kernels);
void register_pointwise(op::BackendKernels& kernels);
void register_pooling(op::BackendKernels& kernels);
void register_random(op::BackendKernels& kernels);
void register_reduction(op::BackendKernels& kernels);
void register_selection(op::BackendKernels& kernels);
void register_shaping(op::BackendKernels& kernels);
void register_shuffle(op::BackendKernels& kernels);
void register_slicing(op::BackendKernels& kernels);
void register_softmax(op::BackendKernels& kernels);
void register_transpose(op::BackendKernels& kernels);

void register_kernels(op::BackendKernels& kernels) {
  register_activation_slopes(kernels);
  register_argmax(kernels);
  register_assign(kernels);
  register_attention(kernels);
  register_batch_norm(kernels);
  register_broadcast(kernels);
  register_cast(kernels);
  register_channel_statistics(kernels);
  register_collective(kernels);
  register_comparison(kernels);
  register_convolution(kernels);
  register_creation(kernels);
  register_cumulative(kernels);
  register_dropout(kernels);
  register_formulas(kernels);
  register_indexing(kernels);
  register_joining(kernels);
  register_layer_norm(kernels);
  register_loss(kernels);
  register_matmul(kernels);
  register_optimizer(kernels);
  register_parts(kernels);
  register_pointwise(kernels);
  register_pooling(kernels);
  register_random(kernels);
  register_reduction(kernels);
  register_selection(kernels);
  register_shaping(kernels);
  register_shuffle(kernels);
  register_slicing(kernels);
  register_softmax(kernels);
  register_transpose(kernels);
}

}  // namespace tandem::kernels::gpu
