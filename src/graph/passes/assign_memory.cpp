// Decides which values of a program share memory. Each value that a call computes gets a buffer of
// the arena. A buffer goes on to the next value when its last one has been used for the last time,
// and an elementwise result takes the buffer of its input at once.
//
//   %1 = matmul(x, w)     buffer 0
//   %2 = relu(%1)         buffer 0, in place: nobody else uses %1
//   %3 = matmul(%2, v)    buffer 1: %2 is read while %3 is written
//   %4 = matmul(%3, u)    buffer 0: %2 is no longer used
//
// Results of the program have no buffer: they are tensors of their own. The choice is made for
// kNominalRows and holds for any number of rows, because a plan makes each buffer as large as the
// largest of its values.
#include <algorithm>
#include <atomic>

#include "graph/program.h"
#include "graph/uses.h"

namespace tandem::graph {
namespace {

std::atomic<bool> planning{true};

/// Walks the program once, handing buffers on from values that are used for the last time.
class Assigner {
 public:
  explicit Assigner(const Graph& graph)
      : graph_(graph), uses_(graph), fixed_(graph.values.size(), false) {
    for (ValueId result : graph.results) fixed_[result] = true;
    memory_.buffer_of = ValueMap<int>(graph.values.size(), -1);
  }

  MemoryAssignment run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      std::vector<bool> taken(node.inputs.size(),
                              false);  // Inputs whose buffer an output took over.
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        const ValueId output = node.outputs[o];
        if (fixed_[output]) continue;
        if (can_take_over(node, o, i)) {
          put(output, buffer_of(node.inputs[o]));
          taken[o] = true;
        } else {
          put(output, free_buffer(bytes_of(output)));
        }
      }
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        if (!taken[k] && !uses_.is_used_from(node.inputs[k], i + 1)) release(node.inputs[k]);
      }
      for (ValueId output : node.outputs) {
        if (!uses_.is_used(output)) release(output);
      }
    }
    return std::move(memory_);
  }

 private:
  int& buffer_of(ValueId value) { return memory_.buffer_of[graph_.storage_of(value)]; }
  size_t bytes_of(ValueId value) const { return graph_.at(value).type.bytes(kNominalRows); }

  bool can_take_over(const Node& node, size_t index, size_t now) {
    if (!planning || !node.op().in_place || index >= node.inputs.size()) return false;
    const ValueId input = node.inputs[index];
    const ValueId storage = graph_.storage_of(input);
    const auto same_storage = [&](ValueId other) { return graph_.storage_of(other) == storage; };
    return buffer_of(input) >= 0 && !uses_.is_used_from(input, now + 1) &&
           std::ranges::count_if(node.inputs, same_storage) == 1 &&
           node.op().split(node.signature).is_aligned(index) &&
           graph_.at(input).type.shape.total_extent() ==
               graph_.at(node.outputs[index]).type.shape.total_extent() &&
           graph_.at(input).type.dtype == graph_.at(node.outputs[index]).type.dtype;
  }

  void put(ValueId value, int buffer) {
    memory_.buffer_of[value] = buffer;
    memory_.values[static_cast<size_t>(buffer)].push_back(value);
  }

  /// The free buffer whose size is nearest, or a new one.
  int free_buffer(size_t bytes) {
    auto best = free_.end();
    const auto distance = [&](int buffer) {
      const size_t size = sizes_[static_cast<size_t>(buffer)];
      return size > bytes ? size - bytes : bytes - size;
    };
    // Smaller values get a buffer each: sharing would save little and cost barriers.
    if (planning && bytes >= kLargeBytes) {
      best = std::ranges::min_element(free_, {}, distance);
    }
    if (best == free_.end()) {
      memory_.values.emplace_back();
      sizes_.push_back(bytes);
      return static_cast<int>(sizes_.size()) - 1;
    }
    const int buffer = *best;
    free_.erase(best);
    sizes_[static_cast<size_t>(buffer)] = std::max(sizes_[static_cast<size_t>(buffer)], bytes);
    return buffer;
  }

  void release(ValueId value) {
    const int buffer = buffer_of(value);
    if (buffer < 0 || sizes_[static_cast<size_t>(buffer)] < kLargeBytes) return;
    if (std::ranges::find(free_, buffer) == free_.end()) free_.push_back(buffer);
  }

  const Graph& graph_;
  const Uses uses_;
  ValueMap<bool> fixed_;  // Results live in tensors of their own.
  MemoryAssignment memory_;
  std::vector<size_t> sizes_;  // The size of each buffer, at the nominal rows.
  std::vector<int> free_;
};

}  // namespace

void set_memory_planning(bool on) { planning = on; }

MemoryAssignment assign_memory(const Graph& graph) { return Assigner(graph).run(); }

}  // namespace tandem::graph
