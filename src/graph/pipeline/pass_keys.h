/// Which pass of which chunk of a pipeline makes each call.
#pragma once

#include <string>
#include <vector>

#include "graph/microbatches.h"
#include "graph/pipeline/call_times.h"
#include "graph/pipeline/stage_search.h"

namespace tandem::graph {

/// Deals the calls that each micro-batch makes to the chunks' passes: the key of a call is the
/// segment that it belongs to. Forward calls are where scopes, lists of layers and variables say;
/// where these say nothing, chunks are searched for. Gradients are in the backward pass of the
/// chunk whose call they are of.
class PassKeys {
 public:
  /// Throws InvalidArgument for scopes and lists that make no pipeline.
  PassKeys(const Graph& graph, const CallTimes& times, const PipelineStages& stages,
           const StageSearch& search);

  /// Negative where the call is made anywhere or once.
  int of(size_t node) const { return keys_[node]; }
  int count() const { return 2 * chunks_ - 1; }
  int chunk_of(int key) const { return key < chunks_ ? key : count() - 1 - key; }
  const devices::DevicePtr& device_of(int key, int pipeline = 0) const {
    return stages_.of_chunk(chunk_of(key), pipeline);
  }

  /// How the chunks came to their calls, for people; empty where there is one.
  const std::string& text() const { return text_; }
  bool is_searched() const { return is_searched_; }

 private:
  bool is_keyed(size_t node) const {
    return !times_.is_once(node) && !times_.is_collective(node) && !times_.is_anywhere(node);
  }
  int producer_of(ValueId value) const { return times_.producers()[graph_.storage_of(value)]; }

  void find_backward();
  int floor_of(size_t node) const;
  int backward_key(size_t node) const;
  int first_use_of(size_t node) const;

  bool has_scopes() const;
  bool is_placed(size_t node) const;
  std::vector<const StoreRange*> variables_of(size_t node) const;
  bool is_listed(size_t node) const;
  bool is_listed(size_t node, int chunk) const;
  bool is_kept_by_some(size_t node) const;
  ProcessList keepers_of(size_t node) const;
  devices::DevicePtr asked_device(size_t node) const;
  std::vector<int> by_scopes() const;
  int next_chunk_with(size_t node, int chunk) const;
  int next_chunk_on(size_t node, int chunk) const;

  std::vector<int> by_search(const StageSearch& search);
  std::vector<CallLoad> loads_of(const NodeList& forward, const StageSearch& search);
  std::vector<int> forward_calls_of_gradients() const;
  std::vector<ChunkPlace> places(const StageSearch& search) const;
  std::vector<double> crossing_times(const NodeList& forward, int64_t rows) const;

  const Graph& graph_;
  const CallTimes& times_;
  const PipelineStages& stages_;
  const int chunks_;
  std::vector<int> keys_;
  std::vector<bool> is_backward_;
  std::string text_;
  bool is_searched_ = false;
};

}  // namespace tandem::graph
