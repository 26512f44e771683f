/// A program, or a stretch of one, on the threads of a team: each replica is a subteam, and all run
/// the same instructions at once.
#pragma once

#include <vector>

#include "core/team.h"
#include "execution/bound_replica.h"
#include "op/instruction_hook.h"

namespace tandem::graph {

class TeamRun final : public core::Job {
 public:
  /// `subteams` are the replicas by subteam of the team. They and `program` outlive it.
  TeamRun(const Program& program, std::vector<const BoundReplica*> subteams);

  /// What the subteams do of each instruction; all of it unless set. Outlives it.
  void set_shares(const std::vector<Share>& shares) { shares_ = &shares; }

  /// What the next play() runs, instead of all.
  void set_stretch(size_t begin, size_t end);

  /// Takes the replicas' addresses for a run. It is called when they are known.
  void bind();

  void play(core::TeamThread& thread) override;
  bool may_wait() const override { return op::instruction_hook() != nullptr; }

 private:
  void play_stretch(core::TeamThread& thread, const core::Members& members, size_t begin,
                    size_t end);

  const Program& program_;
  const std::vector<const BoundReplica*> subteams_;
  const int team_size_;
  const std::vector<Share>* shares_ = nullptr;
  size_t begin_ = 0;
  // The instructions before which all subteams meet, and the end.
  std::vector<size_t> stretch_ends_;
  std::vector<void* const*> peers_;  // The addresses of each subteam.
};

}  // namespace tandem::graph
