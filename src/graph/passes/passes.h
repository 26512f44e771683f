/// Steps from a trace to a program. Each rewrites the graph in place, or decides something about
/// it.
#pragma once

#include <span>

#include "graph/function_placement.h"
#include "graph/graph.h"
#include "graph/runners.h"

namespace tandem::graph {

/// Calls that depend on nothing but constants are made now.
void fold_constants(Graph& graph);

/// Calls whose result is there already (x + 0, x * 1, two transposes) are bypassed, and what is
/// repeated only to meet a larger operand is not repeated.
void simplify_algebra(Graph& graph);

/// Where calls are alike, one of them is made, and all use its results.
void merge_equal_calls(Graph& graph);

/// What is done to the gradient of max pooling, relu's gradient or a sum over the image, is done
/// before it, to the smaller gradient of its result.
void shrink_pool_gradients(Graph& graph);

/// Tells convolutions whose gradient max pooling left mostly zero how much of it is not.
void mark_sparse_gradients(Graph& graph);

/// Where an activation's gradient needs what the activation was of, and nobody else does, the slope
/// is computed beside the value and kept in its place: for gelu and its like, which cost more than
/// the memory.
void share_slopes(Graph& graph);

/// A bias that is added to the rows of a product or a convolution, functions of single elements
/// after it, and after a product another value that meets its result element by element (a
/// residual, a slope), become part of the call: done while the result is in the cache.
void fuse_epilogues(Graph& graph);

/// Elementwise calls over one shape that follow each other become one call, which goes through
/// memory once.
void fuse_elementwise(Graph& graph);

/// A call whose inputs are in use anyway is made just before its result is needed, so that less
/// lives at once.
void free_early(Graph& graph);

/// Reads of variables become the variable's own memory, except where it is written before the
/// value's last use.
void elide_reads(Graph& graph);

/// Reshapes and their like (OpDef::is_view) become the same memory.
void alias_reshapes(Graph& graph);

/// Results that are not computed by a call of their own (an argument, a variable, one value twice)
/// become copies.
void copy_shared_results(Graph& graph);

/// An all_reduce whose results only go into updates split in the same way becomes a reduce_scatter:
/// each thread sums what it will use.
void shard_updates(Graph& graph);

/// Replicas need not tell each other what is the same for all of them: a broadcast of such a value,
/// and the mean of it over `all` replicas, is the value.
void drop_needless_collectives(Graph& graph, int all);

/// What each replica keeps a part of, and the backward pass uses too, is joined again for that.
void join_again(Graph& graph);

/// Sums of which each replica gets its part, and those of micro-batches, are made as soon as there
/// is something to add, which then takes no more memory.
void sum_early(Graph& graph);

/// The ops that a join begins and ends with.
struct JoinOps {
  const char* start;
  const char* finish;
  bool is_hosted = false;  // What GPUs join with other processes is in the host's memory.
};

/// The joins of a layer's variables begin where those before have ended, and go on while the layer
/// of those computes.
void start_joins(Graph& graph, const JoinOps& ops);

/// Tests let each join begin where it ends, to compare.
void set_joins_ahead(bool on);

/// Where replicas are in processes of their own, parts are summed by exchanges. What processes
/// update in parts is brought together.
void exchange_parts(Graph& graph, const Runners& runners);

/// Where processes will have sums of gradients in parts, norms of gradients are summed over the
/// parts.
void take_norms_of_parts(Graph& graph, const Runners& runners);

/// Where replicas of several processes run together, collectives become sums within each process
/// and exchanges between the processes, as few as the values' dependencies allow; of large ones
/// there are more, which go on while gradients are computed.
void merge_collectives(Graph& graph, const Runners& runners);

/// A piece of a graph that runs on one device.
struct Segment {
  devices::DevicePtr device;
  Graph graph;
  std::vector<int> inputs;  ///< For each argument, which tensor of the call it is.
};

/// A graph cut by devices. The tensors of a call are its arguments, then the results of each
/// segment in turn.
struct Partition {
  std::vector<Segment> segments;  ///< The segments, in the order in which they run.
  std::vector<int> results;       ///< Which tensors of the call the whole graph returns.
};

/// Cuts a graph by the devices that its calls run on: what a scope inside the function asks for;
/// with a variable, where that lives; a gradient beside the call that it is of; else where most of
/// the inputs are computed, so that little is copied; else on the device that the function as a
/// whole was placed on. A graph that is all there is one segment.
Partition partition(Graph graph, const FunctionPlacement& placement);

/// Calls without effect whose outputs nobody uses are removed.
void remove_dead_code(Graph& graph);

/// Runs those of the above that leave fewer calls and know nothing of devices.
void make_smaller(Graph& graph);

/// Runs all of the above, in order, for those who will run the program together.
void optimize(Graph& graph, const Runners& runners = 1);

/// The ops that passes put into a graph. They run before devices are known, so every backend has
/// kernels for these; collectives are exchanged where devices share no memory.
std::span<const char* const> ops_of_passes();

/// For tests: leaves calls apart that are fused otherwise, to compare.
void set_fusion(bool on);

}  // namespace tandem::graph
