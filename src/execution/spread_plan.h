/// How replicas whose devices do not share memory run a program together: where the list of
/// instructions is cut, and what moves between memory spaces at each cut. Decided once per program
/// and list of devices; nothing in it depends on the number of rows.
#pragma once

#include <string>
#include <vector>

#include "execution/bound_replica.h"
#include "execution/replicas.h"

namespace tandem::graph {

/// True when replicas need a plan of this kind: their devices, or the home of their variables, are
/// in several memory spaces, or several of them share a device with a queue.
bool is_spread(const Replicas& replicas);

/// A memory space that takes part. Ranks are replicas, in order; the one after the last stands for
/// the home of the variables where no replica is there: it computes nothing but updates and
/// assigns.
struct Site {
  devices::DevicePtr device;
  std::vector<int> ranks;
};

/// Elements of `from_value` on one rank go to `to_value` on others.
struct Move {
  int from = 0;  ///< -1: where the first component of a variable is, if that is at no site.
  int from_value = 0;
  std::vector<int> to{};
  int to_value = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

/// The operands of a collective, summed over all replicas in the order of collective/tree.h.
struct Sum {
  /// What one site sums: elements of all operands, laid end to end. It goes to the outputs of
  /// `targets`.
  struct Part {
    int site = 0;
    int64_t begin = 0;
    int64_t end = 0;
    std::vector<int> targets{};
  };
  size_t instruction = 0;
  std::vector<Part> parts{};
};

/// Exactly one of the three: a stretch of instructions that all sites run on their own, sums, or
/// moves. Between two steps the sites wait for each other.
struct SpreadStep {
  size_t begin = 0;
  size_t end = 0;
  std::vector<Sum> sums{};
  std::vector<Move> moves{};

  bool computes() const { return begin < end; }
};

struct SpreadPlan {
  int replicas = 0;
  std::vector<Site> sites;
  std::vector<int> site_of;  ///< By rank.
  std::vector<SpreadStep> steps;
  std::vector<std::vector<Share>> shares;  ///< By site, by instruction.
  std::vector<int> handed_arguments;       ///< Which arguments home is given by a replica.
  std::vector<Move> repairs;  ///< Make all components of what is written the same as the first.
  std::string reduction;      ///< A line for each sum: how it is done and why.

  int ranks() const { return static_cast<int>(site_of.size()); }
  bool is_home_apart() const { return ranks() > replicas; }
};

/// Throws InvalidArgument for a collective whose operands follow the batch.
SpreadPlan plan_spread(const Program& program, const Replicas& replicas);

}  // namespace tandem::graph
