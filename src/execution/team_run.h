/// A program, or a stretch of one, on the threads of a team: each replica is a squad, and all run
/// the same instructions at once.
#pragma once

#include <vector>

#include "core/team.h"
#include "execution/bound_replica.h"
#include "op/instruction_hook.h"

namespace tandem::graph {

class TeamRun final : public core::Job {
 public:
  /// `squads` are the replicas by squad of the team. They and `program` outlive it.
  TeamRun(const Program& program, std::vector<const BoundReplica*> squads);

  /// What the squads do of each instruction; all of it unless set. Outlives it.
  void set_shares(const std::vector<Share>& shares) { shares_ = &shares; }

  /// What the next play() runs, instead of all.
  void set_stretch(size_t begin, size_t end);

  /// Takes the replicas' addresses for a run. It is called when they are known.
  void bind();

  void play(core::Host& host) override;
  bool may_wait() const override { return op::instruction_hook() != nullptr; }

 private:
  void play_segment(core::Host& host, const core::Lot& lot, size_t begin, size_t end);

  const Program& program_;
  const std::vector<const BoundReplica*> squads_;
  const int team_size_;
  const std::vector<Share>* shares_ = nullptr;
  size_t begin_ = 0;
  std::vector<size_t> segment_ends_;  // The instructions before which all squads meet, and the end.
  std::vector<void* const*> peers_;   // The slots of each squad.
};

}  // namespace tandem::graph
