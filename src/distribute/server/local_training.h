/// Training with parameter servers in one process: the servers, a thread for each worker, and the
/// tickets between them. One thread at a time schedules steps and waits for them:
///
///   schedule -> tickets -> a worker's thread: pull, run, push -> join
#pragma once

#include <condition_variable>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "distribute/server/ticket_table.h"
#include "distribute/server/traced_training.h"

namespace tandem::distribute {

class LocalTraining final : public TracedTraining {
 public:
  /// `body` is the strategy's, which owns this.
  LocalTraining(const Strategy::Body& body, const ParameterServerOptions& options);
  ~LocalTraining() override;

  StepOutcomePtr schedule(const FlatFunction& f, PerReplicas arguments,
                          const BatchNumber& number = {}) override;
  void join() override;
  bool is_done() const override;
  void bring_variables() override;
  const std::vector<Tensors>& results_of(const StepOutcome& outcome) override;
  void read_quietly(const std::function<void()>& read) override;
  void close() override;
  StalenessStatistics statistics() const override;
  std::string explain() const override;

 private:
  struct Task {
    ServerStep* step;
    PerReplicas arguments;
    op::RandomRun random;
    std::shared_ptr<StepOutcome> outcome;
    int open_shares;
  };

  ServerWorker& tracer() override;
  void enter(ServerStep& step);
  void serve(ServerStep& step);
  void start_threads();
  void work(int worker);
  void do_ticket(int worker, const WorkTicket& ticket, Task& task);
  void wait_until(std::unique_lock<std::mutex>& lock, const std::function<bool()>& ready);
  void throw_error(std::unique_lock<std::mutex>& lock);
  bool is_idle() const { return at_work_ == 0; }

  std::vector<std::unique_ptr<ServerWorker>> workers_;
  std::vector<ServerLinks> links_;  // Each worker's.

  ServerStep* current_ = nullptr;  // The step that servers are there for.
  bool is_open_ = false;           // Something was scheduled since the last join.
  std::vector<std::unique_ptr<RangeServer>> servers_;
  StalenessStatistics former_;  // What servers counted that were there before.

  mutable std::mutex mutex_;  // Guards what follows.
  std::condition_variable changed_;
  std::unique_ptr<TicketTable> tickets_;
  std::map<int64_t, Task> tasks_;  // By batch.
  int64_t scheduled_ = 0;
  int at_work_ = 0;
  std::exception_ptr error_;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tandem::distribute
