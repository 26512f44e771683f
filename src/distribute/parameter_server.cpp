// ParameterServerStrategy and ClusterCoordinator: what they are made of is in server/.
#include "tandem/distribute/parameter_server.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "checkpoint/keepers.h"
#include "device/task.h"
#include "distribute/server/chief_training.h"
#include "distribute/server/follower_training.h"
#include "distribute/server/local_training.h"
#include "distribute/strategy_body.h"
#include "distribute/strategy_devices.h"
#include "tandem/error.h"
#include "tensor/shared_stores.h"

namespace tandem::distribute {
namespace {

constexpr const char* kName = "ParameterServerStrategy";

void check_at_least(const char* name, int64_t value, int64_t least) {
  if (value >= least) return;
  throw InvalidArgument(
      fmt::format("{}: {} is {}, {} or more is accepted", kName, name, value, least));
}

std::vector<std::string> all_cpus() {
  std::vector<std::string> names;
  for (const devices::DevicePtr& device : devices::placement_order()) {
    if (device->works_on_threads()) names.push_back(device->name());
  }
  return names;
}

/// The options with the devices and the number of workers.
ParameterServerOptions checked(ParameterServerOptions options) {
  check_at_least("staleness", options.staleness, unbounded);
  check_at_least("workers", options.workers, 0);
  check_at_least("servers", options.servers, 1);
  if (options.drop_older_than) check_at_least("drop_older_than", *options.drop_older_than, 0);
  check_at_least("bytes_in_files", static_cast<int64_t>(options.bytes_in_files), 1);
  if (options.devices.empty()) options.devices = all_cpus();
  const std::vector<devices::DevicePtr> devices = devices_for(kName, options.devices);
  for (const devices::DevicePtr& device : devices) {
    if (device->works_on_threads()) continue;
    throw Unimplemented(
        fmt::format("{}: a worker on {}; CPUs are accepted", kName, device->name()));
  }
  if (options.workers == 0) options.workers = static_cast<int>(devices.size());
  return options;
}

std::shared_ptr<ServerTraining> training_of(const Strategy::Body& body,
                                            const ParameterServerOptions& options,
                                            const std::optional<ServerCluster>& cluster) {
  if (!cluster) return std::make_shared<LocalTraining>(body, options);
  if (cluster->is_chief()) return std::make_shared<ChiefTraining>(body, options, *cluster);
  return std::make_shared<FollowerTraining>(body, options, *cluster);
}

std::shared_ptr<const Strategy::Body> body_of(ParameterServerOptions options) {
  const std::optional<ServerCluster> cluster = server_cluster_from(options);
  if (cluster) {
    options.workers = cluster->workers();
    options.servers = cluster->servers();
    devices::set_task(cluster->config.job, cluster->config.task);
  }
  graph::Replicas replicas{.devices = dealt(devices_for(kName, options.devices), options.workers),
                           .owner = next_owner(),
                           .single_threaded = options.reproducible};
  // Workers that do not share batches are no replicas of each other.
  if (options.staleness != 0) replicas.devices.resize(1);
  auto body = std::make_shared<Strategy::Body>(kName, std::move(replicas));
  if (cluster) note_in_files(body->store(), options.bytes_in_files);
  const std::shared_ptr<ServerTraining> training = training_of(*body, options, cluster);
  checkpoint::add_keepers(training);
  body->set_servers(training);
  return body;
}

}  // namespace

ParameterServerStrategy::ParameterServerStrategy(const ParameterServerOptions& options)
    : Strategy(body_of(checked(options))) {}

std::map<int64_t, int64_t> ParameterServerStrategy::staleness_histogram() const {
  return body().servers()->statistics().of_all();
}

void ParameterServerStrategy::close() const { body().servers()->close(); }

struct ClusterCoordinator::RemoteValue::Body {
  Strategy strategy;
  StepOutcomePtr outcome;          // Null where there are
  std::optional<Tensors> results;  // the results already.
};

ClusterCoordinator::ClusterCoordinator(Strategy strategy) : strategy_(std::move(strategy)) {
  if (strategy_.body().servers() != nullptr) return;
  throw InvalidArgument(
      fmt::format("ClusterCoordinator: {} has no parameter servers; a ParameterServerStrategy is "
                  "accepted",
                  strategy_.name()));
}

ClusterCoordinator::RemoteValue ClusterCoordinator::schedule(const FlatFunction& step,
                                                             const PerReplicas& arguments) {
  ServerTraining& servers = *strategy_.body().servers();
  RemoteValue::Body value{strategy_, nullptr, std::nullopt};
  if (servers.trains(step, arguments)) {
    value.outcome = servers.schedule(step, arguments);
  } else {
    Tensors& results = value.results.emplace();
    for (const PerReplica& each : strategy_.run_flat(step, arguments)) {
      results.push_back(each.value(0));
    }
  }
  return RemoteValue(std::make_shared<RemoteValue::Body>(std::move(value)));
}

Tensors ClusterCoordinator::RemoteValue::fetch() const {
  if (body_->results) return *body_->results;
  return body_->strategy.body().servers()->results_of(*body_->outcome)[0];
}

void ClusterCoordinator::join() { strategy_.body().servers()->join(); }

bool ClusterCoordinator::done() const { return strategy_.body().servers()->is_done(); }

DistributedDataset ClusterCoordinator::create_per_worker_dataset(
    const std::function<data::Dataset()>& f) const {
  return strategy_.distribute_dataset(f());
}

}  // namespace tandem::distribute
