/// Contributions to steps of which some shares are still to come, and their sums: workers that
/// train in step change a server's elements once for each step, by what all shares of it have
/// given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "distribute/range/contribution.h"
#include "distribute/range/server_step.h"

namespace tandem::distribute {

/// What all shares of a step have given, together.
struct StepSum {
  int64_t step = -1;
  Contribution contribution{};
  std::vector<std::vector<std::byte>> pieces{};  ///< The gradients' pieces.
  std::vector<std::vector<int64_t>> rows{};      ///< Which rows those have that have some alone.
};

class HeldSteps {
 public:
  /// Each step has so many shares; ticket t is of step t / shares.
  explicit HeldSteps(int64_t shares) : shares_(shares) {}

  /// Copies a contribution, which has all rows of pieces that are updated whole.
  void hold(int64_t ticket, const Contribution& contribution, std::span<const RangePiece> pieces);

  /// The sum of what all shares of the step have given, in the order of collective/tree.h. The
  /// last of the pieces are what steps assign. It may read what is held.
  StepSum sum(int64_t step, std::span<const RangePiece> pieces,
              std::span<const AssignedVariable> assigned) const;

  void forget(int64_t step);
  void forget_all() { held_.clear(); }

 private:
  struct Held {
    std::vector<std::vector<std::byte>> pieces;
    std::vector<std::vector<int64_t>> rows;  // Those of pieces of which rows alone are updated.
    std::vector<bool> conditions;
  };
  /// The shares of a step, in their order.
  std::vector<const Held*> shares_of(int64_t step) const;
  static void sum_rows(std::span<const Held* const> shares, const RangePiece& own, size_t piece,
                       StepSum& sum);

  int64_t shares_;
  std::map<int64_t, Held> held_;  // By ticket.
};

}  // namespace tandem::distribute
