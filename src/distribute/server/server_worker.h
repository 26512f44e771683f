/// A worker of parameter servers: a device, and its own copies of the variables that servers have.
/// It reads them, runs a step on its part of a batch, and gives the servers what came of it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "distribute/server/server_link.h"
#include "distribute/server/share_group.h"
#include "distribute/server/ticket_table.h"
#include "distribute/strategy_body.h"

namespace tandem::distribute {

class ServerWorker {
 public:
  struct Options {
    int index = 0;  ///< The worker's,
    devices::DevicePtr device{};
    int shares = 1;  ///< of which so many share each batch.
    uint64_t owner = 0;
    bool single_threaded = false;
    uint64_t incarnation = 1;
    StepUse use = StepUse::run;
    /// Workers that share a device and meet within steps have different ones. Nor do they have the
    /// first, which computes whatever somebody else wants of the device meanwhile.
    int team = 0;
  };
  ServerWorker(const Strategy& strategy, const Options& options);

  /// Traces and compiles `step` for these arguments.
  void compile(ServerStep& step, std::span<const PerReplica> arguments);

  /// The batch that it will take after the present one.
  struct NextBatch {
    PerReplicas arguments;
    op::RandomRun random;
  };

  /// What it takes next, if that is known; it is asked when the step has run.
  using FindNext = std::function<const NextBatch*()>;

  /// Does what a ticket asks for, and returns the step's own results; nothing where some server has
  /// refused what came of it. The arguments are the parts of all shares. Where it is known what it
  /// takes `next`, the rows that that reads come with the answers to its push.
  std::optional<Tensors> run(ServerStep& step, const ServerLinks& servers,
                             std::span<const PerReplica> arguments, const WorkTicket& ticket,
                             const op::RandomRun& random,
                             const std::function<void(int worker)>& before_step = {},
                             const FindNext& find_next = {});

 private:
  PerReplicas part_of(std::span<const PerReplica> arguments, int share) const;
  void take_places(const ServerStep& step, const ServerLinks& servers);
  void set_share(int share);
  void take_sums(const ServerStep& step, std::span<const PerReplica> arguments,
                 const op::RandomRun& random);
  /// Numbers of rows by variable; nothing where all of a variable is meant.
  using RowsByVariable = std::vector<std::optional<std::vector<int64_t>>>;
  RowsByVariable rows_read(const ServerStep& step, std::span<const PerReplica> part,
                           const op::RandomRun& random);
  std::optional<Tensors> run_step(const ServerStep& step, std::span<const PerReplica> part,
                                  const op::RandomRun& random);
  std::vector<int64_t> pull(const ServerLinks& servers, const WorkTicket& ticket,
                            const RowsByVariable& rows);
  void release_rows(const ServerStep& step, const ServerLinks& servers, const RowsByVariable& rows);
  bool push(const ServerStep& step, const ServerLinks& servers, const WorkTicket& ticket,
            const std::shared_ptr<const Tensors>& results, std::span<const int64_t> versions,
            const RowsByVariable& next);

  const Strategy strategy_;
  const int index_;
  const uint64_t incarnation_;
  RangeCopies copies_;
  const std::shared_ptr<ShareGroup> group_;  // Null where workers do not share batches.
  ServerStep* step_ = nullptr;               // The one that is being traced or run.
  const Strategy::Body body_;
  const ServerStep* placed_ = nullptr;        // The step of the places.
  std::vector<std::vector<void*>> places_;    // Where each server's pieces are, in the copies.
  std::vector<std::vector<std::byte>> read_;  // The assigned variables, as they were read.
  size_t pages_of_rows_ = 0;                  // Bytes of memory that rows have taken.
};

}  // namespace tandem::distribute
