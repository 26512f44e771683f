/// Runs a program on replicas whose devices do not share memory, as its SpreadPlan says. Between
/// two cuts each device with a queue has its instructions on it, and the CPU replicas run on their
/// team, all at the same time; at a cut the caller's thread waits for all of them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "execution/exchange.h"
#include "execution/queue_run.h"
#include "execution/spread_plan.h"
#include "execution/team_run.h"
#include "runtime/teams.h"

namespace tandem::graph {

class Spread {
 public:
  /// `ranks` are bound by the owner, one for each rank of the plan. They and `program` outlive it.
  Spread(const Program& program, const Replicas& replicas, SpreadPlan plan,
         std::vector<BoundReplica>& ranks);

  const SpreadPlan& plan() const { return plan_; }

  /// Where a rank has a variable: the component in its memory space, or a copy that each run makes.
  void* variable(int rank, int value);

  /// The memory that sums need. To be called before run(); throws ResourceExhausted with the name
  /// of the replica.
  void reserve();

  /// `owner` is kept alive by what is queued. Throws what a replica threw with its name, or
  /// DeadlineExceeded naming one that did not get ready; what was queued is then left undone.
  void run(const std::shared_ptr<const void>& owner);

  /// Before the next run all components of variables are made the same as the first: a run was
  /// given up while a device was still at work.
  void repair_first() { repairs_first_ = true; }

  /// Bytes of copies of variables and of staging that a rank's memory space holds.
  size_t extra_bytes(int rank) const;

 private:
  /// A site at work.
  struct Post {
    Site site;
    const std::vector<Share>* shares = nullptr;
    std::string name;                         // Of its first rank.
    std::shared_ptr<runtime::TeamSlot> team;  // Null where the device has a queue.
    std::unique_ptr<TeamRun> team_run;
    std::map<int, std::shared_ptr<Buffer>> copies;  // By value: variables with no component here.
    std::shared_ptr<Buffer> staging;
    size_t staging_bytes = 0;
    devices::Event done{};  // Of what was put on its queue last.
  };

  /// One run: what is queued of it refers to this.
  struct Run {
    std::shared_ptr<const void> owner;
    std::shared_ptr<Failure> failure;
    std::vector<std::shared_ptr<QueueRun>> queued;  // By rank; null on CPUs.
  };

  void run_steps(const Run& run);
  void compute(const Run& run, const SpreadStep& step);
  void submit(const Run& run, const Post& post, size_t begin, size_t end);
  void run_team(const Run& run, Post& post, const SpreadStep& step);
  void sum(const Run& run, size_t step);
  void move(const Run& run, const std::vector<Move>& moves);
  void wait(const Run& run);
  void settle(const Run& run);

  const Program& program_;
  const SpreadPlan plan_;
  std::vector<BoundReplica>& ranks_;
  std::vector<Post> posts_;
  std::vector<std::vector<std::pair<int, PartialSum>>> sums_;  // By step: site and its part.
  bool meets_ = false;                                         // Some step is a cut.
  bool repairs_first_ = false;
};

}  // namespace tandem::graph
