/// Shares of a step that a worker does beside its own. Shares wait for each other where a step
/// needs sums of what all of them compute (step_meeting.h), so a share whose worker is gone is done
/// while another worker is in the middle of its own: on a thread that has a worker's copies of
/// variables, its programs and links to the servers for itself, and a team of threads on the same
/// device.
///
///   worker 0    share 0: give ----------------------> sums .. push
///    beside              share 1: pull .. give -----> sums .. push
///   worker 1    share 1: dies
///
/// The first thread only waits for a ticket; the next one begins to wait when it has one.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "distribute/server/server_cluster.h"
#include "distribute/server/server_worker.h"
#include "op/kernel.h"

namespace tandem::distribute {

class SideWorkers {
 public:
  using FindBatch = std::function<std::optional<PerReplicas>(const WorkTicket& ticket)>;

  /// What they have from the process that they are part of. Any of their threads may call these.
  struct Process {
    PatientLine& chief;
    int64_t session;
    uint64_t incarnation;
    int most;  ///< So many threads at most.
    std::function<std::unique_ptr<ServerWorker>(int number)> make_worker;  ///< Counts from 1.
    std::function<ServerLinks()> make_links;
    std::function<uint64_t()> chief_of_tickets;  ///< The incarnation of the one that it has joined.
    FindBatch find_batch;  ///< Waits for it; nothing where the process has left.
    std::function<void(int worker)> before_step;
    std::function<void()> tell_failure;  ///< Is called while an error is handled.
  };
  SideWorkers(ServerStep& step, Process process);
  /// Waits until what they do is over; they take no more tickets.
  ~SideWorkers();
  SideWorkers(const SideWorkers&) = delete;
  SideWorkers& operator=(const SideWorkers&) = delete;

 private:
  /// What the chief is told about a ticket.
  struct Done {
    WorkTicket ticket;
    bool is_made;
    Tensors results;
  };
  struct Taken {
    WorkTicket ticket;
    op::RandomRun random;
  };

  void start_thread();
  void work(int number);
  std::optional<Taken> take(std::optional<Done>& done);
  std::optional<cluster::ServiceText> answer_to(std::string question) const;

  ServerStep& step_;
  const Process process_;
  std::atomic<bool> ends_{false};
  std::mutex mutex_;  // Guards the three below.
  std::vector<std::thread> threads_;
  int idle_ = 0;
  bool is_closed_ = false;
};

}  // namespace tandem::distribute
