/// The steps of a session that may be done again, or whose results somebody may want. Its holder
/// sees to it that one thread uses it at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "distribute/server/server_training.h"
#include "distribute/server/ticket_table.h"
#include "op/kernel.h"

namespace tandem::distribute {

class ScheduledSteps {
 public:
  /// Each step has so many shares.
  explicit ScheduledSteps(int shares) : shares_(shares) {}

  /// The next step. Those that are long done are forgotten, except that none behind the first
  /// `kept` is: they may be done again.
  std::shared_ptr<StepOutcome> add(const op::RandomRun& random, int64_t kept);
  bool has(int64_t step) const { return steps_.contains(step); }
  /// The random numbers of a step that was not forgotten.
  const op::RandomRun& random_of(int64_t step) const { return steps_.at(step).random; }
  /// A share of a step is done; a second time changes nothing.
  void finish(const WorkTicket& ticket, Tensors results);
  /// The answer to those who want the results of a step that somebody else has done.
  std::string answer_of(int64_t step) const;

 private:
  struct Step {
    op::RandomRun random;
    std::shared_ptr<StepOutcome> recent;  // Null for older ones, whose results are there as long
    std::weak_ptr<StepOutcome> outcome;   // as the chief's program holds them.
    std::set<int> done;                   // The shares that are.
  };

  int shares_;
  int64_t added_ = 0;
  std::map<int64_t, Step> steps_;  // By number.
};

}  // namespace tandem::distribute
