/// What all trainings with parameter servers have, on threads and in processes: the options, the
/// devices, and the steps of users' functions, each traced once.
#pragma once

#include <span>
#include <vector>

#include "distribute/server/server_cluster.h"
#include "distribute/server/server_training.h"
#include "distribute/server/server_worker.h"
#include "tandem/distribute/parameter_server.h"

namespace tandem::distribute {

class TracedTraining : public ServerTraining {
 public:
  TracedTraining(const TracedTraining&) = delete;
  TracedTraining& operator=(const TracedTraining&) = delete;

  bool trains(const FlatFunction& f, std::span<const PerReplica> arguments) final {
    return traced_step(f, arguments).trains();
  }

 protected:
  /// `body` is the strategy's, which owns this. Computes on `devices`.
  TracedTraining(const Strategy::Body& body, const ParameterServerOptions& options,
                 std::vector<devices::DevicePtr> devices);

  /// A worker, which is not at work, to trace steps with.
  virtual ServerWorker& tracer() = 0;
  ServerStep& traced_step(const FlatFunction& f, std::span<const PerReplica> arguments);

  /// The servers as the options lay out the variables of `step`, all in this process's memory.
  std::vector<std::unique_ptr<RangeServer>> servers_for(const ServerStep& step) const;

  /// What worker `index` of this training is made with.
  ServerWorker::Options worker_options(int index, StepUse use = StepUse::run,
                                       uint64_t incarnation = 1) const;

  const Strategy strategy_;  // Does not own its body, which owns this.
  const ParameterServerOptions options_;
  const std::vector<devices::DevicePtr> devices_;
  const uint64_t owner_;
  const int shares_;  // A batch is cut into so many.

 private:
  int workers_before(int index) const;

  ServerSteps steps_;
};

/// A training of which this process is one of the tasks.
class TaskTraining : public TracedTraining {
 public:
  bool is_met() const final { return is_met_; }

 protected:
  TaskTraining(const Strategy::Body& body, const ParameterServerOptions& options,
               const ServerCluster& cluster);

  const ServerCluster cluster_;
  const uint64_t incarnation_;  // Tells this process from others that were this task.
  bool is_met_ = false;
  bool is_closed_ = false;
};

}  // namespace tandem::distribute
