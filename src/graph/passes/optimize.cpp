// The order of the passes that rewrite a graph before it becomes a program. First those that leave
// fewer calls, which make the work of all others smaller; then those that join calls; then those
// that settle when calls are made and what is copied, which must see the calls that are left.
#include <atomic>

#include "graph/passes/passes.h"

namespace tandem::graph {
namespace {
std::atomic<bool> fusion{true};
}

void set_fusion(bool on) { fusion = on; }

void make_smaller(Graph& graph) {
  // The passes run first while numbers are still calls (`fill`) that say their value, then again
  // with what could be folded.
  merge_equal_calls(graph);
  simplify_algebra(graph);
  fold_constants(graph);
  simplify_algebra(graph);
  merge_equal_calls(graph);
  remove_dead_code(graph);
}

void optimize(Graph& graph, const Runners& runners) {
  make_smaller(graph);
  if (runners.all > 1) {
    drop_needless_collectives(graph, runners.all);
    join_again(graph);
  }
  if (runners.group) {
    take_norms_of_parts(graph, runners);
    merge_collectives(graph, runners);
    exchange_parts(graph, runners);
  }
  alias_reshapes(graph);
  // Calls are fused before reads are elided: a call that moves down past an assign must not read
  // what that wrote.
  if (fusion) {
    shrink_pool_gradients(graph);
    mark_sparse_gradients(graph);
    share_slopes(graph);
    fuse_epilogues(graph);
    fuse_elementwise(graph);
  }
  free_early(graph);
  sum_early(graph);
  // Joins begin behind others that no call of their own stands between any more.
  if (runners.group) {
    start_joins(graph, {.start = "exchange_join_start",
                        .finish = "exchange_join_finish",
                        .is_hosted = runners.is_hosted});
  } else if (runners.have_exchange_queues) {
    start_joins(graph, {.start = "join_start", .finish = "join_finish", .is_hosted = false});
  }
  elide_reads(graph);
  copy_shared_results(graph);
  shard_updates(graph);
  remove_dead_code(graph);
}

std::span<const char* const> ops_of_passes() {
  static constexpr const char* kOps[] = {"fused",
                                         "fused_conv2d",
                                         "fused_matmul",
                                         "gelu_tanh_with_slope",
                                         "gelu_with_slope",
                                         "silu_with_slope",
                                         "mul",
                                         "reshape",
                                         "reduce_scatter",
                                         "reduce_local",
                                         "exchange_sum",
                                         "exchange_start",
                                         "exchange_finish",
                                         "join_start",
                                         "join_finish",
                                         "exchange_join_start",
                                         "exchange_join_finish",
                                         "exchange_join_over_model",
                                         "exchange_sum_to_part",
                                         "exchange_sum_to_part_over_model",
                                         "exchange_over_model",
                                         "exchange_over_holders",
                                         "exchange_gather",
                                         "exchange_broadcast",
                                         "spread_local",
                                         "square_sum_of_part"};
  return kOps;
}

}  // namespace tandem::graph
