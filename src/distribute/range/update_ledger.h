/// What a parameter server knows of the updates that it has made: so it makes each exactly once,
/// and knows how stale each was. A push says whose it is and what it is of:
///
///   worker, incarnation   who computed it; a worker that was replaced is refused
///   sequence              its number among the pushes of that worker: a retry has the same
///   ticket                the piece of work: a server makes the update of a ticket once, whoever
///                         sends it and however often
///   base_version          the version of the server's values that it was computed from
///
/// Where workers train in step, what came of a step's shares is held until `commit` says that all
/// servers have all shares of the step: a worker may die having told some servers and not others,
/// and its share is then computed anew from the same values.
///
/// It is saved with the values, so that a server that comes back knows which updates they have.
/// Nothing here waits or locks; the server that owns it does.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "distribute/range/number_set.h"
#include "distribute/range/staleness_statistics.h"

namespace tandem::distribute {

struct PushStamp {
  int worker = 0;
  uint64_t incarnation = 0;
  int64_t sequence = 0;
  int64_t ticket = 0;
  int64_t base_version = 0;
};

struct PushAnswer {
  enum class Outcome {
    applied,   ///< The update is to be made now.
    held,      ///< It waits for the rest of its step.
    repeated,  ///< It was made, or is held, already.
    dropped,   ///< It is older than the limit, and counts as made.
    refused,   ///< Its sender was replaced, or its step is not the server's.
  };
  Outcome outcome = Outcome::applied;
  int64_t version = 0;    ///< The version of the values after it.
  int64_t staleness = 0;  ///< How many updates were made since its values were read.
  double scale = 1;       ///< What its learning rate is multiplied with.
  bool operator==(const PushAnswer&) const = default;
};

struct LedgerOptions {
  bool synchronous = false;  ///< What came of a step is held until all have all of it.
  int shares = 1;            ///< A step has so many.
  bool damping = false;      ///< Rates are divided by 1 + staleness.
  std::optional<int64_t> drop_older_than{};  ///< The most staleness that is applied.
};

class UpdateLedger {
 public:
  explicit UpdateLedger(const LedgerOptions& options) : options_(options) {}

  /// Decides on a push and takes note of it: what is to be applied must be before the next call.
  PushAnswer admit(const PushStamp& push);

  /// The step that is held whole and whose turn it is, if it is before `step`: a pull for a step
  /// says that all servers have what came of the steps before. It is to be applied before the next
  /// call.
  std::optional<int64_t> commit(int64_t step);

  /// Whether all of a step is held, whose turn it is.
  bool is_whole(int64_t step) const;

  /// How many updates were made.
  int64_t version() const { return version_; }
  /// Whether the update of a ticket was made.
  bool has(int64_t ticket) const { return made_.contains(ticket); }

  const StalenessStatistics& statistics() const { return statistics_; }

  /// What is held is not saved: it is computed anew.
  std::string save() const;
  /// Throws DataLoss for a text that save() did not make.
  void restore(const std::string& saved);

 private:
  const LedgerOptions options_;
  int64_t version_ = 0;
  NumberSet made_;  // The tickets whose updates were made.
  std::set<int64_t> held_;
  struct LastPush {
    uint64_t incarnation;
    int64_t sequence;
    PushAnswer answer;
  };
  std::map<int, LastPush> last_;  // By worker.
  StalenessStatistics statistics_;
};

}  // namespace tandem::distribute
