/// Runs a program on replicas whose devices do not share memory, as its SpreadPlan says. Between
/// two cuts each device with a queue has its instructions on it, and the CPU replicas run on their
/// team, all at the same time. At a cut queues wait for each other, and the caller's thread goes
/// on; where CPUs take part, it waits for all.
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

  /// Returns the points where the devices are done. `owner` is kept alive until then. Throws what a
  /// replica threw with its name, or DeadlineExceeded naming one that did not get ready; where no
  /// CPU takes part, the events do.
  std::vector<devices::Event> run(const std::shared_ptr<const void>& owner);

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
    devices::Event done{};  // What was put on its queue last has run.
  };

  void run_steps(const std::shared_ptr<const void>& owner);
  void compute(const std::shared_ptr<const void>& owner, const SpreadStep& step);
  void issue(const Post& post, size_t begin, size_t end);
  void run_team(const std::shared_ptr<const void>& owner, Post& post, const SpreadStep& step);
  void sum(size_t step);
  void move(const std::shared_ptr<const void>& owner, const std::vector<Move>& moves);
  void meet();
  void wait();
  void settle(const std::shared_ptr<const void>& owner, std::exception_ptr error);
  Post& post_of(int rank) {
    return posts_[static_cast<size_t>(plan_.site_of[static_cast<size_t>(rank)])];
  }

  const Program& program_;
  const SpreadPlan plan_;
  std::vector<BoundReplica>& ranks_;
  std::vector<Post> posts_;
  std::vector<std::vector<std::pair<int, PartialSum>>> sums_;  // By step: site and its part.
  bool meets_ = false;                                         // Some step is a cut.
  bool has_teams_ = false;                                     // CPUs take part.
  bool repairs_first_ = false;
};

}  // namespace tandem::graph
