/// Runs a program on replicas whose devices do not share memory, as its CrossDevicePlan says.
/// Between two cuts each device with a queue has its instructions on it, and the CPU replicas run
/// on their team, all at the same time. At a cut queues wait for each other, and the caller's
/// thread goes on; where CPUs take part, it waits for all. Devices sum, and join what replicas have
/// in parts, on a queue of their own, which waits for those that compute, and they for it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "execution/cross_device_plan.h"
#include "execution/exchange.h"
#include "execution/hosted_exchange.h"
#include "execution/queue_run.h"
#include "execution/team_run.h"
#include "runtime/shared_team.h"

namespace tandem::graph {

class CrossDeviceRun {
 public:
  /// `ranks` are bound by the owner, one for each rank of the plan. They and `program` outlive it.
  CrossDeviceRun(const Program& program, const Replicas& replicas, CrossDevicePlan plan,
                 std::vector<BoundReplica>& ranks);

  const CrossDevicePlan& plan() const { return plan_; }

  /// Where a rank has a variable: the component in its memory space, or a copy that each run makes.
  void* variable(int rank, ValueId value);

  /// The memory that sums need. To be called before run(); throws ResourceExhausted with the name
  /// of the replica.
  void reserve();

  /// `ends` become the points where the devices are done. `owner` is kept alive until then. Throws
  /// what a replica threw with its name, or DeadlineExceeded naming one that did not get ready;
  /// where no CPU takes part, the events do.
  void run(const std::shared_ptr<const void>& owner, std::vector<devices::Event>& ends);

  /// Before the next run all components of variables are made the same as the first: a run was
  /// given up while a device was still at work.
  void repair_first() { repairs_first_ = true; }

  /// Nobody will use it any more, and a device may hang in a sum.
  void abandon() noexcept {
    if (group_) group_->abort();
  }

  /// Bytes of copies of variables and of staging that a rank's memory space holds when replicas
  /// have so many rows.
  size_t extra_bytes(int rank, int64_t rows) const;

 private:
  /// A participant during runs: who does its work, and the memory that it needs.
  struct ActiveParticipant {
    Participant participant;
    const std::vector<Share>* shares = nullptr;
    std::string name;                           // The name of its first rank.
    std::shared_ptr<runtime::SharedTeam> team;  // Null where the device has a queue.
    std::unique_ptr<TeamRun> team_run;
    // The variables with no component here.
    std::map<ValueId, std::shared_ptr<Buffer>> copies;
    std::shared_ptr<Buffer> staging;
    size_t staging_bytes = 0;
    devices::Event done{};       // What was put on its queue last has run,
    devices::Event exchanged{};  // and on its queue for exchanges;
    devices::Event moved{};      // of that, the early moves.
    devices::Event arrived{};    // Where it was when all began to wait for each other.

    devices::Queue& queue() const { return participant.device->queue(); }
    devices::Queue& exchange_queue() const { return participant.device->exchange_queue(); }
    template <class Work>
    void submit(Work work);
  };

  void run_supersteps(const std::shared_ptr<const void>& owner);
  void compute(const std::shared_ptr<const void>& owner, const Superstep& superstep);
  void issue(const ActiveParticipant& active, size_t begin, size_t end);
  void run_team(const std::shared_ptr<const void>& owner, ActiveParticipant& active,
                const Superstep& superstep);
  void sum_with_teams(size_t superstep);
  using Sums = std::vector<std::pair<int, PartialSum>>;
  const Sums& sums_of(size_t superstep);
  void note_staging(int participant, const PartialSum& part);
  std::vector<Sum::Piece> pieces_of(const Sum& sum, int first, int64_t rows) const;
  size_t staging_for(int participant, int64_t rows) const;
  Sums prepared_sums(const Sum& sum, const std::vector<Sum::Piece>& pieces, int64_t rows) const;
  void begin_sums(size_t superstep);
  void begin_library_sums(size_t superstep);
  void begin_moves(const std::vector<Move>& moves);
  void issue_early(const Move& move, int rank, devices::Queue& queue);
  void await(devices::Event ActiveParticipant::*what);
  void move(const std::shared_ptr<const void>& owner, const std::vector<Move>& moves);
  void exchange(size_t instruction);
  void meet();
  void wait();
  void settle(const std::shared_ptr<const void>& owner, std::exception_ptr error);
  ActiveParticipant& active_of(int rank) {
    return active_[static_cast<size_t>(plan_.participant_of[static_cast<size_t>(rank)])];
  }

  const Program& program_;
  const CrossDevicePlan plan_;
  std::vector<BoundReplica>& ranks_;
  std::vector<ActiveParticipant> active_;
  // For each superstep, who sums which piece.
  std::vector<Sums> sums_;
  // By superstep, then by the rows of each group of neighbours.
  std::map<size_t, std::map<std::vector<int64_t>, Sums>> batch_sums_;
  std::vector<int64_t> rows_;                          // The rows of these groups in a run.
  std::vector<std::vector<LibrarySum>> library_sums_;  // The same, of sums by a library.
  std::shared_ptr<collective::DeviceGroup> group_;     // Its devices, once it has summed.
  std::vector<devices::Event> computed_;               // The participants' `done`,
  std::vector<devices::Event> summed_;                 // and their `exchanged`.
  HostedExchanges exchanges_;                          // With other processes.
  bool meets_ = false;                                 // Some superstep is a cut.
  bool has_teams_ = false;                             // CPUs take part.
  bool repairs_first_ = false;
};

}  // namespace tandem::graph
