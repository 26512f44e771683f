/// Training with parameter servers in other processes, as the tasks `worker` and `ps` see it: they
/// do what the chief says until it says that all is done.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "distribute/server/remote_server.h"
#include "distribute/server/server_task.h"
#include "distribute/server/side_workers.h"
#include "distribute/server/traced_training.h"

namespace tandem::distribute {

class FollowerTraining final : public TaskTraining {
 public:
  /// `body` is the strategy's, which owns this. Waits until the chief is there.
  FollowerTraining(const Strategy::Body& body, const ParameterServerOptions& options,
                   const ServerCluster& cluster);
  ~FollowerTraining() override;

  bool leads() const override { return false; }
  void meet() override;
  std::string follow(const FlatFunction& f, const BatchNumber& first,
                     const BatchAt& batch_at) override;
  std::string follow() override;

  StepOutcomePtr schedule(const FlatFunction& f, PerReplicas arguments,
                          const BatchNumber& number = {}) override;
  void join() override;
  bool is_done() const override;
  void bring_variables() override;
  const std::vector<Tensors>& results_of(const StepOutcome& outcome) override;
  void read_quietly(const std::function<void()>& read) override { read(); }
  void close() override;
  StalenessStatistics statistics() const override { return {}; }
  std::string explain() const override;

 private:
  /// What a worker tells of the ticket that it had.
  struct Done {
    WorkTicket ticket;
    bool is_made;
    Tensors results;
  };

  /// A step of a loop, by its number.
  struct LoopOutcome : StepOutcome {
    int64_t step = 0;
  };

  void take_part();
  void enter_loop(const FlatFunction& f, std::span<const PerReplica> arguments);
  void leave_loop();
  void check_serving();
  void work_until(int64_t goal, const std::function<bool()>& is_enough);
  bool take_values(int64_t steps);
  bool take_results(LoopOutcome& outcome);
  ServerWorker& tracer() override { return worker_; }
  std::string serve();
  std::string work(ServerStep& step, const BatchAt& batch_at);
  ServerLinks make_links() const;
  using FindBatch = SideWorkers::FindBatch;
  void begin_work(ServerStep& step, FindBatch find_beside);
  void end_work();
  void join_chief();
  using NextTicket = std::optional<std::pair<WorkTicket, op::RandomRun>>;
  /// A ticket, and what else the chief says with it.
  struct Taken {
    WorkTicket ticket;
    op::RandomRun random;
    int64_t whole_steps;  // So many are done,
    int64_t kept_steps;   // and so many are never done again.
    NextTicket next{};    // What it will take after it.
  };
  static NextTicket read_next(MessageReader& reader);
  enum class TakeOutcome { ticket, none, end };
  TakeOutcome take(const ServerStep& step, int64_t goal);
  void do_ticket(ServerStep& step, const FindBatch& find);
  const ServerWorker::NextBatch* note_next(const NextTicket& next, const FindBatch& find);
  std::optional<PerReplicas> wait_for_batch(const WorkTicket& ticket);
  void forget_batches();
  void do_loop_ticket();
  std::string take_end(MessageReader& reader);
  ServerAnswer take_states(ServerQuestion kind, int64_t steps);
  void put_states(uint64_t offset, std::string_view bytes);
  void tell_failure();

  class Heart;

  ServerWorker worker_;
  int64_t session_ = -1;
  mutable PatientLine chief_;
  std::vector<std::unique_ptr<RangeServer>> mirrors_;
  ServerLinks links_;
  std::string facts_;                   // The step's.
  std::atomic<uint64_t> joined_{0};     // The incarnation of the chief whose tickets it takes.
  std::optional<Done> done_;            // What the chief has not heard of.
  std::optional<Taken> taken_;          // The ticket that is to be done.
  int64_t next_number_ = -1;            // The ticket after it, if that is known,
  ServerWorker::NextBatch next_{};      // and its batch.
  std::string result_;                  // What the chief told at the end.
  std::atomic<bool> has_ended_{false};  // The session has.
  bool has_followed_ = false;           // Its part of the session is done.
  std::unique_ptr<Heart> heart_;
  std::unique_ptr<SideWorkers> beside_;  // Where shares of a step wait for each other.

  std::mutex batches_mutex_;
  std::condition_variable batches_changed_;
  std::map<int64_t, PerReplicas> batches_;  // Those that may be asked for, by step.
  size_t batch_bytes_ = 0;                  // Those of a loop have so many.
  bool has_left_ = false;                   // No more will come.

  // In a loop of its own, which schedules steps: all tasks schedule the same.
  ServerStep* loop_ = nullptr;
  int64_t scheduled_ = 0;
  int64_t joined_steps_ = 0;  // How many of them were scheduled at the last join.
  std::thread serving_;
  std::exception_ptr serving_error_;
  std::atomic<bool> has_served_{false};  // The thread is about to end.
  std::shared_ptr<ServerTask> task_;
  std::unique_ptr<cluster::ServiceHost> host_;
};

}  // namespace tandem::distribute
