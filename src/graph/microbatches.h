/// A step over micro-batches: the parts of a batch that run one after another in the memory of one,
/// or behind each other through the stages of a pipeline. To the function they are replicas, which
/// meet in collectives; here a collective is a sum in time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/passes/passes.h"

namespace tandem::graph {

/// Where micro-batches go through.
struct PipelineStages {
  std::vector<devices::DevicePtr> devices;  ///< One for each stage; one alone is no pipeline.
  int chunks = 1;  ///< Of the model on each stage: chunk c is on stage c % stages.
  /// The devices of further pipelines, through which other micro-batches go at the same time.
  std::vector<std::vector<devices::DevicePtr>> beside{};

  int pipelines() const { return 1 + static_cast<int>(beside.size()); }
  int chunks_in_all() const { return static_cast<int>(devices.size()) * chunks; }
  const devices::DevicePtr& of_chunk(int chunk, int pipeline = 0) const {
    const auto& own = pipeline == 0 ? devices : beside[static_cast<size_t>(pipeline) - 1];
    return own[static_cast<size_t>(chunk) % own.size()];
  }
};

/// A graph cut by chunks and by what is done once.
struct MicrobatchCut {
  /// What runs for each micro-batch before any of them goes through the model, if anything does:
  /// sums that the batch alone decides. Its inputs are arguments, and it has no results.
  std::optional<Segment> first;
  /// What runs for each micro-batch: the forward passes of all n chunks but the last, the forward
  /// and backward pass of the last, the backward passes of the others in reverse: 2n - 1 segments,
  /// each of which needs earlier ones alone. The tensors of a micro-batch are the arguments, then
  /// the results of each segment in turn. By pipeline: they differ in devices and in the variables
  /// of their sums.
  std::vector<std::vector<Segment>> each;
  /// What runs once when all micro-batches have. Argument i of it is argument once_arguments[i] of
  /// the function.
  Partition once;
  std::vector<int> once_arguments;
  /// Where each result is: a tensor of the micro-batch, or of what runs once.
  struct Result {
    bool of_each = true;
    int tensor = 0;
  };
  std::vector<Result> results;
};

/// Takes the sums that the batch alone decides out of a graph: it reads them then from variables
/// of `owner` on `device`, to which the segment adds for each micro-batch. Nothing where there are
/// none.
std::optional<Segment> take_early_sums(Graph& graph, const devices::DevicePtr& device,
                                       uint64_t owner);

/// Cuts the graph of a step, traced for so many replicas as there are micro-batches, those of all
/// pipelines together. Sums of what
/// the micro-batches have become variables of `owner` beside the stages that add to them. Where no
/// scope of the function names a stage, the calls are dealt out by their costs. Throws
/// Unimplemented for what a micro-batch would have to wait for the others in the middle of its
/// passes, and InvalidArgument for scopes that make no pipeline.
MicrobatchCut cut_microbatches(Graph graph, int microbatches, const PipelineStages& stages,
                               uint64_t owner);

}  // namespace tandem::graph
