/// The instruction by which a program meets those of other processes: one thread of the team
/// exchanges the first replica's operands while the others wait at the next barrier.
#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <vector>

#include "graph/program.h"

namespace tandem::graph {

/// Numbers that the processes add up beside the values of a program, so that they agree on what
/// happens between two steps without a meeting of its own. A process writes `own`; after a run
/// `all` has the sums of what each had written before it.
struct Agreement {
  explicit Agreement(size_t numbers) : own(numbers), all(numbers) {}
  std::vector<int64_t> own;
  std::vector<int64_t> all;
  /// When the last exchange that carried it began and ended.
  std::chrono::steady_clock::time_point arrived{};
  std::chrono::steady_clock::time_point left{};
  /// How long the sums since somebody set this to 0 took: less where this process came later.
  std::chrono::nanoseconds waited{0};
};

/// The exchanges of a program's run that have begun. One run at a time uses them.
struct BucketTickets {
  struct Bucket {
    op::Group::Ticket ticket = 0;
    std::vector<op::Piece> pieces;
  };
  std::vector<Bucket> buckets;
  /// The joins of variables that have begun, by their numbers.
  std::vector<Bucket> joins;
  std::vector<char> parts;             ///< The parts of gradients on their way,
  std::vector<op::Piece> part_pieces;  ///< and which gradient has which.
};

bool is_group_exchange(const Node& node);

/// The variables of which each process updates a part.
std::set<ValueId> variables_in_parts(const Graph& graph);

/// True for an update of which each process does a part.
bool is_update_in_parts(const Node& node, const std::set<ValueId>& variables);

/// `node` is one of the program's exchanges; `signature` is its, for a number of rows.
op::ExecutablePtr prepare_group_exchange(const Program& program, const Node& node,
                                         const op::Signature& signature);

}  // namespace tandem::graph
