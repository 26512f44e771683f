/// How replicas whose devices do not share memory run a program together: where the list of
/// instructions is cut, and what moves between memory spaces at each cut. Decided once per program
/// and list of devices; nothing in it depends on the number of rows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "execution/bound_replica.h"
#include "execution/replicas.h"

namespace tandem::graph {

/// True when replicas need a plan of this kind: their devices, or the central device, are in
/// several memory spaces, or several of them share a device with a queue.
bool is_cross_device(const Replicas& replicas);

/// A memory space that takes part. Ranks are replicas, in order; the one after the last stands for
/// the central device where no replica is there: it computes nothing but updates and assigns.
struct Participant {
  devices::DevicePtr device;
  std::vector<int> ranks;
};

/// Elements of `from_value` on one rank go to `to_value` on others.
struct Move {
  int from = 0;  ///< -1: where the first component of a variable is, if no participant has one.
  ValueId from_value = kNoValue;
  std::vector<int> to{};
  ValueId to_value = kNoValue;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t shift = 0;  ///< They go so many elements behind where they were.
};

/// The operands of a collective, summed over all replicas or over some: in the order of
/// collective/tree.h, or by a library in its own.
struct Sum {
  /// What one participant sums: elements of all operands, laid end to end. It goes to the outputs
  /// of `targets`.
  struct Piece {
    int participant = 0;
    int64_t begin = 0;
    int64_t end = 0;
    std::vector<int> targets{};
    int64_t shift = 0;           ///< As Move::shift; then there is one operand,
    int64_t zeros = 0;           ///< and so many zeros follow it.
    std::vector<int> sources{};  ///< The ranks whose operands are summed; none: those of all.
  };
  size_t instruction = 0;
  std::vector<Piece> pieces{};
  std::vector<size_t> operands{};  ///< Which of the operands are summed now, in order.
  bool is_by_library = false;      ///< There are no pieces: the devices' library sums all, for all.
  /// Where it is not 0, there are no pieces yet: the operands follow the batch, and so many
  /// neighbours, who have the same rows, meet.
  int neighbours = 0;
};

/// What happens between two meetings of all participants (the word is that of bulk synchronous
/// programs: Valiant 1990). Exactly one of the five: a stretch of instructions that all
/// participants run on their own, sums, moves, a wait for early moves, or an exchange of the first
/// replica's values with other processes. Between two supersteps the participants wait for each
/// other, except behind early ones, which go on beside what is computed next. Early sums are those
/// of a bucket of gradients, which lie still until the update: they begin when the last of these
/// gradients is there. Early moves join variables of which each replica has a part: they begin
/// when those before have been waited for, and are waited for where the wholes are used.
struct Superstep {
  size_t begin = 0;
  size_t end = 0;
  std::vector<Sum> sums{};
  std::vector<Move> moves{};
  bool early = false;
  bool awaits_moves = false;         ///< All early moves so far are waited for.
  std::optional<size_t> exchange{};  ///< The instruction that exchanges with other processes.

  bool computes() const { return begin < end; }
};

struct CrossDevicePlan {
  int replicas = 0;  ///< Those of this process.
  std::vector<Participant> participants;
  std::vector<int> participant_of;  ///< By rank.
  std::vector<Superstep> supersteps;
  std::vector<std::vector<Share>> shares;  ///< By participant, by instruction.
  std::vector<int> handed_arguments;  ///< Which arguments the central device is given by a replica.
  std::vector<Move> repairs;  ///< Make all components of what is written the same as the first.
  std::string reduction;      ///< A line for each sum: how it is done and why.

  int ranks() const { return static_cast<int>(participant_of.size()); }
  bool is_central_apart() const { return ranks() > replicas; }
};

/// What moves between memory spaces in each run, the batch aside; empty where nothing does.
std::string explain_edges(const CrossDevicePlan& plan, const Program& program);

/// The pieces of a sum of so many elements over some ranks, of which the participant of each sums
/// an equal share for all of them.
std::vector<Sum::Piece> equal_pieces(const CrossDevicePlan& plan, int64_t elements,
                                     const std::vector<int>& ranks);

/// Throws InvalidArgument for a collective whose operands follow the batch.
CrossDevicePlan plan_cross_device(const Program& program, const Replicas& replicas);

}  // namespace tandem::graph
