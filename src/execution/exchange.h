/// What moves between memory spaces where replicas meet: copies, and sums over the replicas. On a
/// device with a queue they are commands, on a CPU they are done at once; both reach the memory of
/// all, so all must have arrived, and wait until it is over before they use that memory again.
#pragma once

#include <memory>
#include <vector>

#include "collective/device_group.h"
#include "collective/tree.h"
#include "execution/cross_device_plan.h"

namespace tandem::graph {

/// One participant's part of a sum, prepared. Kernels of the participant's device add; what lies
/// elsewhere comes by way of a staging area, a tile at a time.
class PartialSum {
 public:
  /// `rows` are those of a replica, where the operands follow the batch.
  PartialSum(const Program& program, const Sum& sum, const Sum::Piece& piece,
             const Participant& participant, int replicas, int64_t rows = 0);

  /// The participant has no part in it.
  bool is_empty() const { return tiles_.empty() && zeros_ == 0; }

  /// The memory at the participant that run() needs.
  size_t staging_bytes() const { return staging_bytes_; }

  /// The same before it is prepared.
  static size_t staging_bytes_of(const Program& program, const Sum& sum, const Sum::Piece& piece,
                                 const Participant& participant, int replicas, int64_t rows);

  /// Commands of `queue`, one of the participant's device's. `replicas` are all ranks, bound. They
  /// and the staging area must live until the queue is past it.
  void run(const std::vector<BoundReplica>& replicas, void* staging, devices::Queue& queue) const;

 private:
  /// A run of elements of one operand that fits the staging area.
  struct Tile {
    size_t operand;
    int64_t begin;
    int64_t count;
    op::ExecutablePtr add;
  };

  void sum_tile(const Tile& tile, const std::vector<BoundReplica>& replicas, char* staging,
                devices::Queue& queue) const;
  void add(const Tile& tile, void* a, void* b, void* out, devices::Queue& queue) const;

  const devices::DevicePtr device_;
  const ValueIds inputs_;
  const ValueIds outputs_;
  const std::vector<int> targets_;
  const std::vector<int> sources_;  // The ranks whose operands are summed.
  const int64_t shift_;             // As Sum::Piece has these three.
  const int64_t end_;
  const int64_t zeros_;
  const size_t tile_bytes_;
  const size_t staging_bytes_;
  std::vector<size_t> element_bytes_;  // By operand.
  std::vector<Tile> tiles_;
};

/// A sum of a library, with the addresses of all ranks as they are in a run.
class LibrarySum {
 public:
  LibrarySum(const Program& program, const Sum& sum, int replicas);
  LibrarySum(LibrarySum&&) noexcept = default;  // The operands see the addresses where they are.

  /// As DeviceGroup::all_reduce.
  void run(collective::DeviceGroup& group, const std::vector<BoundReplica>& replicas,
           std::span<const devices::Event> after, std::span<devices::Event> done);

 private:
  ValueIds inputs_;
  ValueIds outputs_;
  std::vector<void*> addresses_;  // Those of each input and then of each output, by rank.
  std::vector<collective::DeviceGroup::Operand> operands_;
};

/// Where the values of a move are.
const devices::DevicePtr& source_of(const Move& move, const Graph& graph,
                                    const std::vector<BoundReplica>& replicas);

/// Moves the value to one of the ranks that it is for. `keep` owns the memory of all replicas. The
/// value was there at `value_ready`.
void make_move(const Move& move, int rank, const Graph& graph,
               const std::vector<BoundReplica>& replicas, const std::shared_ptr<const void>& keep,
               const devices::Event& value_ready);

/// The same as a command of `queue`, one of the target's device's, which is behind all that the
/// value and its place depend on. The owner of the replicas' memory lives until it has run.
void issue_move(const Move& move, int rank, const Graph& graph,
                const std::vector<BoundReplica>& replicas, devices::Queue& queue);

}  // namespace tandem::graph
