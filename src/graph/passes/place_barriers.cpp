// All threads run the same list of instructions at once, each its own part of every instruction.
// This pass puts a barrier before an instruction in which a thread may touch memory that another
// thread has written, or may still be reading, since the last barrier.
//
//   %2 = matmul(%1, w)    each thread computes its own rows of %2
//   %3 = relu(%2)         and reads the same rows of %2: no barrier
//   -- barrier            of the threads of one replica
//   %4 = matmul(v, %3)    each thread reads all of %3
//   -- barrier            of the threads of all replicas
//   all_reduce(%4)        each thread reads its chunks of all replicas' %4
#include <algorithm>
#include <optional>
#include <set>

#include "graph/group_exchange.h"
#include "graph/program.h"
#include "op/update.h"

namespace tandem::graph {
namespace {

/// How an instruction's threads divide one operand among them; nothing where each may touch all of
/// it. Two are the same only if each thread's part is the same bytes of the memory.
struct Division {
  int64_t extent;
  op::Split::Unit unit;
  bool whole_team;
  int64_t unit_bytes = 0;
  int64_t start = 0;   ///< For chunks, the elements before this operand's first.
  bool alone = false;  ///< The first thread has all of it; nothing else counts then.
  int parts = 0;       ///< As Instruction::parts.
  bool operator==(const Division&) const = default;
};

struct Access {
  int memory;  ///< A buffer of the arena, or a value outside of it.
  bool writes;
  bool all_reach;  ///< Memory that other replicas touch too.
  std::optional<Division> division;

  /// The two must not run at once, unless each thread stays within its own part.
  bool conflicts(const Access& other) const {
    return memory == other.memory && (writes || other.writes) &&
           !(division && division == other.division);
  }
};

/// The elements before each operand, where chunks run on from one operand to the next.
std::vector<int64_t> starts_of(const op::TensorTypes& types) {
  std::vector<int64_t> starts;
  int64_t start = 0;
  for (const op::TensorType& type : types) {
    starts.push_back(start);
    start += type.shape.total_extent();
  }
  return starts;
}

/// An update cuts its ranges as it does their gradients.
std::vector<int64_t> range_starts_of(const Node& node) {
  if (!node.op().is_update) return starts_of(node.signature.ranges);
  const op::UpdateLayout layout(node.signature);
  std::vector<int64_t> starts;
  for (size_t i = 0; i < node.ranges.size(); ++i) starts.push_back(layout.start(layout.owner(i)));
  return starts;
}

class BarrierPlacer {
 public:
  BarrierPlacer(const Graph& graph, const MemoryAssignment& memory, int replicas)
      : graph_(graph), memory_(memory), replicas_(replicas), in_parts_(variables_in_parts(graph)) {
    for (ValueId value : graph.values.ids()) {
      if (graph.at(value).source == Value::Source::range) ranges_.push_back(value);
    }
  }

  void place(Instruction& instruction) {
    const std::vector<Access> accesses = accesses_of(instruction);
    if (any_conflict(since_team_, accesses, true)) {
      instruction.barrier = BarrierScope::team;
      since_team_.clear();
      since_any_.clear();
    } else if (any_conflict(since_any_, accesses, false)) {
      instruction.barrier = BarrierScope::subteam;
      since_any_.clear();
    }
    since_team_.insert(since_team_.end(), accesses.begin(), accesses.end());
    since_any_.insert(since_any_.end(), accesses.begin(), accesses.end());
  }

 private:
  static bool any_conflict(const std::vector<Access>& earlier, const std::vector<Access>& now,
                           bool between_replicas) {
    return std::ranges::any_of(now, [&](const Access& a) {
      return std::ranges::any_of(earlier, [&](const Access& b) {
        return a.conflicts(b) && (a.all_reach || b.all_reach) == between_replicas;
      });
    });
  }

  std::vector<Access> accesses_of(const Instruction& instruction) const {
    const Node& node = instruction.node;
    const op::Split split = node.op().split(node.signature);
    Division shared{split.extent, split.unit, instruction.whole_team};
    // A part that one replica alone has is cut as all that is its own.
    if (instruction.parts < replicas_) shared.parts = instruction.parts;
    const auto division_of = [&](ValueId value, int64_t start) {
      const op::TensorType& type = graph_.at(value).type;
      const auto size = static_cast<int64_t>(size_of(type.dtype));
      Division own = shared;
      const bool chunks = split.unit == op::Split::Unit::chunk;
      own.unit_bytes =
          chunks ? size : (split.extent == 0 ? 0 : type.shape.total_extent() / split.extent * size);
      own.start = chunks ? start : 0;
      return own;
    };
    const bool collective = node.op().is_collective && replicas_ > 1;
    std::vector<Access> accesses;
    if (is_group_exchange(node)) {
      // One thread touches all of the first replica's operands.
      for (ValueId input : node.inputs) {
        accesses.push_back(access(input, false, collective, std::nullopt));
      }
      for (ValueId output : node.outputs) {
        accesses.push_back(access(output, true, collective, std::nullopt));
      }
      for (ValueId range : node.ranges) {
        accesses.push_back(access(range, true, collective, std::nullopt));
      }
      return accesses;
    }
    const std::vector<int64_t> input_starts = starts_of(node.signature.inputs);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Division division = division_of(node.inputs[i], input_starts[i]);
      accesses.push_back(access(node.inputs[i], false, collective,
                                split.is_aligned(i) ? std::optional(division) : std::nullopt));
    }
    const std::vector<int64_t> output_starts = starts_of(node.signature.outputs);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      accesses.push_back(access(node.outputs[i], true, collective && node.op().writes_peers,
                                division_of(node.outputs[i], output_starts[i])));
    }
    const std::vector<int64_t> range_starts = range_starts_of(node);
    for (size_t i = 0; i < node.ranges.size(); ++i) {
      const Division division = division_of(node.ranges[i], range_starts[i]);
      const bool writes = node.op().writes_ranges;
      accesses.push_back(
          access(node.ranges[i], writes, false, writes ? std::optional(division) : std::nullopt));
    }
    if (is_update_in_parts(node, in_parts_)) {
      // Threads divide this process's part, not the whole as in other calls.
      for (Access& access : accesses) access.division.reset();
      return accesses;
    }
    if (instruction.alone) {
      const Division all{
          .extent = 1, .unit = op::Split::Unit::row, .whole_team = false, .alone = true};
      // Each replica has a first thread: what they share is not one thread's.
      for (Access& access : accesses) {
        access.division = access.all_reach ? std::nullopt : std::optional(all);
      }
    }
    return accesses;
  }

  Access access(ValueId value, bool writes, bool peers, std::optional<Division> division) const {
    const ValueId storage = graph_.storage_of(value);
    const int buffer = memory_.buffer_of[storage];
    const Value& value_there = graph_.at(storage);
    const bool variable = value_there.source == Value::Source::range &&
                          (value_there.range.is_same_for_all() || value_there.range.is_own_part());
    // Values outside of the arena count from -1 downwards, so as not to meet buffers.
    return {buffer >= 0 ? buffer : -1 - static_cast<int>(same_memory(storage)), writes,
            replicas_ > 1 && (variable || peers), division};
  }

  /// The first value by which a variable is seen that is seen as a whole and in parts.
  ValueId same_memory(ValueId storage) const {
    if (graph_.at(storage).source != Value::Source::range) return storage;
    return *std::ranges::find_if(ranges_, [&](ValueId range) {
      return overlap(graph_.at(range).range, graph_.at(storage).range);
    });
  }

  const Graph& graph_;
  const MemoryAssignment& memory_;
  const int replicas_;
  const std::set<ValueId> in_parts_;  // Variables of which each process updates a part.
  ValueIds ranges_;                   // All variables.
  std::vector<Access> since_team_;    // The accesses since the last barrier of all replicas,
  std::vector<Access> since_any_;     // and since the last barrier of either kind.
};

}  // namespace

void place_barriers(const Graph& graph, const MemoryAssignment& memory, int replicas,
                    std::vector<Instruction>& instructions) {
  BarrierPlacer placer(graph, memory, replicas);
  for (Instruction& instruction : instructions) placer.place(instruction);
}

}  // namespace tandem::graph
