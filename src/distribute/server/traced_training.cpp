#include "distribute/server/traced_training.h"

#include "distribute/strategy_body.h"

namespace tandem::distribute {

TracedTraining::TracedTraining(const Strategy::Body& body, const ParameterServerOptions& options,
                               std::vector<devices::DevicePtr> devices)
    : strategy_(handle_of(body)),
      options_(options),
      devices_(std::move(devices)),
      owner_(body.targets().owner),
      shares_(shares_of(options)),
      steps_(shares_) {}

ServerStep& TracedTraining::traced_step(const FlatFunction& f,
                                        std::span<const PerReplica> arguments) {
  ServerStep& step = steps_.of(f);
  if (!step.is_traced()) tracer().compile(step, arguments);
  return step;
}

std::vector<std::unique_ptr<RangeServer>> TracedTraining::servers_for(
    const ServerStep& step) const {
  return make_servers(strategy_, step, options_, options_.servers, devices_);
}

/// How many of the workers before this one have its device.
int TracedTraining::workers_before(int index) const {
  int count = 0;
  for (int w = 0; w < index; ++w) {
    count += devices_[static_cast<size_t>(w) % devices_.size()] ==
             devices_[static_cast<size_t>(index) % devices_.size()];
  }
  return count;
}

ServerWorker::Options TracedTraining::worker_options(int index, StepUse use,
                                                     uint64_t incarnation) const {
  return {.index = index,
          .device = devices_[static_cast<size_t>(index) % devices_.size()],
          .shares = shares_,
          .owner = owner_,
          .single_threaded = options_.reproducible,
          .incarnation = incarnation,
          .use = use,
          .team = shares_ > 1 ? 1 + workers_before(index) : 0};
}

TaskTraining::TaskTraining(const Strategy::Body& body, const ParameterServerOptions& options,
                           const ServerCluster& cluster)
    : TracedTraining(body, options, {body.devices()[0]}),
      cluster_(cluster),
      incarnation_(new_incarnation()) {}

}  // namespace tandem::distribute
