#include <algorithm>
#include <optional>

#include "graph/program.h"

namespace tandem::graph {
namespace {

/// How an instruction's threads divide one operand among them; nothing where each may touch all of
/// it.
struct Partition {
  int64_t extent;
  op::Split::Unit unit;
  bool whole_team;
  bool operator==(const Partition&) const = default;
};

struct Access {
  int memory;  ///< A buffer of the arena, or a value outside of it.
  bool writes;
  bool all_reach;  ///< Memory that other replicas touch too.
  std::optional<Partition> partition;

  /// The two must not run at once, unless each thread stays within its own part.
  bool conflicts(const Access& other) const {
    return memory == other.memory && (writes || other.writes) &&
           !(partition && partition == other.partition);
  }
};

class BarrierPlacer {
 public:
  BarrierPlacer(const Graph& graph, const MemoryAssignment& memory, int replicas)
      : graph_(graph), memory_(memory), replicas_(replicas) {}

  void place(Instruction& instruction) {
    const std::vector<Access> accesses = accesses_of(instruction);
    if (any_conflict(since_team_, accesses, true)) {
      instruction.barrier = Barrier::team;
      since_team_.clear();
      since_any_.clear();
    } else if (any_conflict(since_any_, accesses, false)) {
      instruction.barrier = Barrier::squad;
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
    const Partition partition{split.extent, split.unit, instruction.whole_team};
    const bool collective = node.op().is_collective && replicas_ > 1;
    std::vector<Access> accesses;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const auto part = split.is_aligned(i) ? std::optional(partition) : std::nullopt;
      accesses.push_back(access(node.inputs[i], false, collective, part));
    }
    for (int output : node.outputs) {
      accesses.push_back(access(output, true, collective && node.op().writes_peers, partition));
    }
    for (size_t i = 0; i < node.ranges.size(); ++i) {
      const bool writes = node.op().writes_range(i, node.ranges.size());
      const auto part = writes ? std::optional(partition) : std::nullopt;
      accesses.push_back(access(node.ranges[i], writes, false, part));
    }
    return accesses;
  }

  Access access(int value, bool writes, bool peers, std::optional<Partition> partition) const {
    const int storage = graph_.storage_of(value);
    const int buffer = memory_.buffer_of[static_cast<size_t>(storage)];
    const bool variable = graph_.at(storage).source == Value::Source::range;
    // Values outside of the arena count from -1 downwards, so as not to meet buffers.
    return {buffer >= 0 ? buffer : -1 - storage, writes, replicas_ > 1 && (variable || peers),
            partition};
  }

  const Graph& graph_;
  const MemoryAssignment& memory_;
  const int replicas_;
  std::vector<Access> since_team_;  // Since the last barrier of all replicas.
  std::vector<Access> since_any_;   // Since the last barrier of either kind.
};

}  // namespace

void place_barriers(const Graph& graph, const MemoryAssignment& memory, int replicas,
                    std::vector<Instruction>& instructions) {
  BarrierPlacer placer(graph, memory, replicas);
  for (Instruction& instruction : instructions) placer.place(instruction);
}

}  // namespace tandem::graph
