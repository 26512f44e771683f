/// The public side of cluster configuration: ClusterSpec and the resolvers.
#include <fmt/format.h>

#include <map>

#include "cluster/cluster_config.h"

namespace tandem {
namespace train {

ClusterSpec::ClusterSpec(Addresses addresses) : addresses_(std::move(addresses)) {
  std::map<std::string, std::string> owners;
  for (const auto& [job, tasks] : addresses_) {
    for (size_t i = 0; i < tasks.size(); ++i) {
      const std::string field = fmt::format("ClusterSpec: {}[{}]", job, i);
      const std::string address = cluster::parse_host_port(tasks[i], field).str();
      const auto [owner, fresh] = owners.emplace(address, fmt::format("{}[{}]", job, i));
      if (!fresh) {
        throw InvalidArgument(
            fmt::format("{}: '{}' is the address of {} already", field, address, owner->second));
      }
    }
  }
}

std::vector<std::string> ClusterSpec::jobs() const {
  std::vector<std::string> names;
  for (const auto& [job, tasks] : addresses_) names.push_back(job);
  return names;
}

int ClusterSpec::num_tasks(const std::string& job) const {
  const auto found = addresses_.find(job);
  return found == addresses_.end() ? 0 : static_cast<int>(found->second.size());
}

const std::string& ClusterSpec::task_address(const std::string& job, int task) const {
  const auto found = addresses_.find(job);
  if (found == addresses_.end()) {
    throw InvalidArgument(fmt::format("ClusterSpec: there is no job '{}'; the jobs are {}", job,
                                      fmt::join(jobs(), ", ")));
  }
  if (task < 0 || task >= static_cast<int>(found->second.size())) {
    throw InvalidArgument(fmt::format("ClusterSpec: job '{}' has {} tasks, and no task {}", job,
                                      found->second.size(), task));
  }
  return found->second[static_cast<size_t>(task)];
}

}  // namespace train

namespace cluster_resolver {
namespace {

std::string variable(const char* name) {
  const cluster::Environment environment = cluster::process_environment();
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

}  // namespace

ClusterResolver::~ClusterResolver() = default;

std::string ClusterResolver::master(std::optional<std::string> type, std::optional<int> id) const {
  return cluster_spec().task_address(type.value_or(task_type()), id.value_or(task_id()));
}

SimpleClusterResolver::SimpleClusterResolver(train::ClusterSpec spec, std::string task_type,
                                             int task_id)
    : spec_(std::move(spec)), task_type_(std::move(task_type)), task_id_(task_id) {
  if (!spec_.empty()) spec_.task_address(task_type_, task_id_);
}

TFConfigClusterResolver::TFConfigClusterResolver(std::optional<std::string> task_type,
                                                 std::optional<int> task_id) {
  const auto cluster = cluster::task_from_tf_config(variable("TF_CONFIG"));
  if (cluster) spec_ = cluster->spec;
  task_type_ = task_type.value_or(cluster ? cluster->job : "");
  task_id_ = task_id.value_or(cluster ? cluster->task : 0);
  if (!spec_.empty()) spec_.task_address(task_type_, task_id_);
}

SlurmClusterResolver::SlurmClusterResolver() : SlurmClusterResolver(Options{}) {}

SlurmClusterResolver::SlurmClusterResolver(const Options& options) {
  const auto cluster =
      cluster::cluster_from_slurm(cluster::process_environment(), options.port_base);
  if (!cluster) {
    throw InvalidArgument(
        "SlurmClusterResolver: SLURM_STEP_ID is not set; start the program by srun");
  }
  const std::vector<std::string>& all = cluster->spec.as_dict().at("worker");
  auto jobs = options.jobs;
  if (jobs.empty()) jobs = {{"worker", cluster->size}};
  train::ClusterSpec::Addresses addresses;
  int first = 0;
  for (const auto& [job, count] : jobs) {
    if (count < 1 || count > cluster->size - first) {
      throw InvalidArgument(
          fmt::format("SlurmClusterResolver: jobs: {} tasks of '{}' do not fit into the step's {}",
                      count, job, cluster->size));
    }
    addresses[job].assign(all.begin() + first, all.begin() + first + count);
    if (cluster->rank >= first && cluster->rank < first + count) {
      task_type_ = job;
      task_id_ = cluster->rank - first;
    }
    first += count;
  }
  if (first != cluster->size) {
    throw InvalidArgument(fmt::format(
        "SlurmClusterResolver: jobs name {} tasks, SLURM_NTASKS is {}", first, cluster->size));
  }
  spec_ = train::ClusterSpec(std::move(addresses));
}

}  // namespace cluster_resolver
}  // namespace tandem
