// The list of the CPU's kernels. A family that is not called here does not exist.
#include "op/registry.h"

namespace tandem::kernels::cpu {

void register_activation_slopes(op::Registry& registry);
void register_argmax(op::Registry& registry);
void register_assign(op::Registry& registry);
void register_attention(op::Registry& registry);
void register_batch_norm(op::Registry& registry);
void register_broadcast(op::Registry& registry);
void register_cast(op::Registry& registry);
void register_channel_statistics(op::Registry& registry);
void register_comparison(op::Registry& registry);
void register_convolution(op::Registry& registry);
void register_creation(op::Registry& registry);
void register_cumulative(op::Registry& registry);
void register_dropout(op::Registry& registry);
void register_fused(op::Registry& registry);
void register_indexing(op::Registry& registry);
void register_joining(op::Registry& registry);
void register_layer_norm(op::Registry& registry);
void register_loss(op::Registry& registry);
void register_matmul(op::Registry& registry);
void register_optimizer(op::Registry& registry);
void register_pointwise(op::Registry& registry);
void register_pooling(op::Registry& registry);
void register_random(op::Registry& registry);
void register_reduction(op::Registry& registry);
void register_selection(op::Registry& registry);
void register_shaping(op::Registry& registry);
void register_shuffle(op::Registry& registry);
void register_slicing(op::Registry& registry);
void register_softmax(op::Registry& registry);
void register_transpose(op::Registry& registry);

void register_kernels(op::Registry& registry) {
  register_activation_slopes(registry);
  register_argmax(registry);
  register_assign(registry);
  register_attention(registry);
  register_batch_norm(registry);
  register_broadcast(registry);
  register_cast(registry);
  register_channel_statistics(registry);
  register_comparison(registry);
  register_convolution(registry);
  register_creation(registry);
  register_cumulative(registry);
  register_dropout(registry);
  register_fused(registry);
  register_indexing(registry);
  register_joining(registry);
  register_layer_norm(registry);
  register_loss(registry);
  register_matmul(registry);
  register_optimizer(registry);
  register_pointwise(registry);
  register_pooling(registry);
  register_random(registry);
  register_reduction(registry);
  register_selection(registry);
  register_shaping(registry);
  register_shuffle(registry);
  register_slicing(registry);
  register_softmax(registry);
  register_transpose(registry);
}

}  // namespace tandem::kernels::cpu
