/// What a graph becomes: a flat list of instructions over one arena per replica, with barriers only
/// where a thread reads or overwrites what another has written. Nothing in it depends on the number
/// of rows; that is what plans are for.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "graph/graph.h"
#include "graph/runners.h"
#include "op/cost.h"
#include "op/kernel.h"

namespace tandem::graph {

enum class BarrierScope { none, subteam, team };

struct Instruction {
  Node node;
  BarrierScope barrier = BarrierScope::none;  ///< The barrier before the instruction.
  bool whole_team = false;  ///< The work is split over all replicas that share memory.
  /// The work is so small that the replica's first thread does it all.
  bool alone = false;
  /// Where it is not 0, the work is split over the replicas that have the same one of so many parts
  /// of a variable.
  int parts = 0;
};

/// Which values share memory. A buffer is as large as the largest value assigned to it.
struct MemoryAssignment {
  /// The buffer of each value; -1 for one outside of the arena.
  ValueMap<int> buffer_of;
  std::vector<ValueIds> values;  ///< The values in each buffer.
};

struct BucketTickets;

class Program {
 public:
  /// Optimizes and compiles. `runners` run it together.
  Program(Graph graph, Runners runners);

  const Graph& graph() const { return graph_; }
  /// The replicas of this process.
  int replicas() const { return runners_.local; }
  const Runners& runners() const { return runners_; }
  const std::vector<Instruction>& instructions() const { return instructions_; }
  const MemoryAssignment& memory() const { return memory_; }
  bool writes_variables() const { return writes_variables_; }

  /// How often a run meets the other processes.
  int exchanges() const;
  const std::shared_ptr<BucketTickets>& bucket_tickets() const { return bucket_tickets_; }

 private:
  Graph graph_;
  Runners runners_;
  std::vector<Instruction> instructions_;
  MemoryAssignment memory_;
  std::shared_ptr<BucketTickets> bucket_tickets_;  // Null where this process is alone.
  bool writes_variables_ = false;
};

/// A program prepared for a number of rows and the devices of one memory space.
struct Plan {
  int64_t rows = 0;
  std::vector<op::ExecutablePtr> executables;  ///< The prepared kernel of each instruction.
  /// The inputs, outputs and ranges of each instruction, as indices into addresses by value.
  std::vector<std::vector<int>> operands;
  std::vector<op::Cost> costs;  ///< The cost of each instruction.
  std::vector<size_t> offsets;  ///< The offset of each buffer within the arena.
  size_t workspace_offset = 0;  ///< The offset of the first thread's workspace.
  size_t workspace_bytes = 0;   ///< The size of one thread's workspace.
  size_t arena_bytes = 0;
  bool is_small = false;  ///< One thread is as fast as all those of its replica.
};

/// `subteam_size` threads share a replica, `team_size` all of them.
Plan make_plan(const Program& program, int64_t rows, const devices::DevicePtr& device,
               int subteam_size, int team_size);

/// The program for people: a line for each instruction with its outputs, how it is split over the
/// threads, who computes it, its operations and bytes, and its place in the arena.
std::string explain(const Program& program, const Plan& plan);

/// "1.2 MB", "205 MFLOP": three digits are enough.
std::string scaled(double amount, const char* unit);

MemoryAssignment assign_memory(const Graph& graph);

/// For tests: gives each value memory of its own, to compare.
void set_memory_planning(bool on);

void place_barriers(const Graph& graph, const MemoryAssignment& memory, int replicas,
                    std::vector<Instruction>& instructions);

}  // namespace tandem::graph
