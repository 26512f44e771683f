// The list of the op families. A family that is not called here does not exist.
#include "op/registry.h"

namespace tandem::ops {

void register_activation(op::Registry& registry);
void register_arithmetic(op::Registry& registry);
void register_assign(op::Registry& registry);
void register_attention(op::Registry& registry);
void register_batch_norm(op::Registry& registry);
void register_comparison(op::Registry& registry);
void register_convolution(op::Registry& registry);
void register_creation(op::Registry& registry);
void register_cumulative(op::Registry& registry);
void register_dropout(op::Registry& registry);
void register_extreme(op::Registry& registry);
void register_fused(op::Registry& registry);
void register_indexing(op::Registry& registry);
void register_joining(op::Registry& registry);
void register_layer_norm(op::Registry& registry);
void register_loss(op::Registry& registry);
void register_math(op::Registry& registry);
void register_matmul(op::Registry& registry);
void register_optimizer(op::Registry& registry);
void register_pooling(op::Registry& registry);
void register_random(op::Registry& registry);
void register_reduce_prod(op::Registry& registry);
void register_reduction(op::Registry& registry);
void register_selection(op::Registry& registry);
void register_shaping(op::Registry& registry);
void register_shuffle(op::Registry& registry);
void register_slicing(op::Registry& registry);
void register_softmax(op::Registry& registry);

void register_ops(op::Registry& registry) {
  register_activation(registry);
  register_arithmetic(registry);
  register_assign(registry);
  register_attention(registry);
  register_batch_norm(registry);
  register_comparison(registry);
  register_convolution(registry);
  register_creation(registry);
  register_cumulative(registry);
  register_dropout(registry);
  register_extreme(registry);
  register_fused(registry);
  register_indexing(registry);
  register_joining(registry);
  register_layer_norm(registry);
  register_loss(registry);
  register_math(registry);
  register_matmul(registry);
  register_optimizer(registry);
  register_pooling(registry);
  register_random(registry);
  register_reduce_prod(registry);
  register_reduction(registry);
  register_selection(registry);
  register_shaping(registry);
  register_shuffle(registry);
  register_slicing(registry);
  register_softmax(registry);
}

}  // namespace tandem::ops
