/// Who takes part in a training: what environments say, as one description. All functions are pure;
/// each error names the variable or the field that is wrong.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/cluster.h"

namespace tandem::cluster {

using Environment = std::map<std::string, std::string, std::less<>>;

/// A host and a port, from "host:port" or "[2001:db8::1]:port".
struct HostPort {
  std::string host;
  int port = 0;

  std::string str() const;
  bool operator==(const HostPort&) const = default;
};

/// Throws InvalidArgument, which begins with `field`.
HostPort parse_host_port(std::string_view text, const std::string& field);

/// Whether only processes of the same machine reach it: localhost, 127.0.0.1, ::1.
bool is_loopback(std::string_view host);

/// The processes that train together, as this one knows them before it has met the others.
struct Cluster {
  std::string source;    ///< What says so: "TF_CONFIG", "RANK and WORLD_SIZE".
  std::string id;        ///< The same on all ranks, another one for each start where that is known.
  std::string job;       ///< This process's: "chief", "worker".
  int task = 0;          ///< Its number in the job.
  int rank = 0;          ///< Its number among all that train: the chief, then the workers.
  int size = 1;          ///< How many train.
  HostPort coordinator;  ///< Where ranks meet.
  bool hosted = false;   ///< Whether a launcher runs the coordinator, instead of rank 0.
  train::ClusterSpec spec;  ///< The addresses of all tasks, where they are known.

  /// "worker 2": the job and the task of a rank.
  std::string task_name(int rank) const;
};

/// The tasks of a cluster, some of which may not train, and which one this process is.
struct TaskConfig {
  train::ClusterSpec spec;
  std::string job;
  int task = 0;
};

/// The text of TF_CONFIG; nothing if it names no cluster.
std::optional<TaskConfig> task_from_tf_config(std::string_view text);

/// The same for a task that trains.
std::optional<Cluster> cluster_from_tf_config(std::string_view text);

/// RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torchrun sets them.
std::optional<Cluster> cluster_from_torchrun(const Environment& environment);

/// What mpirun of Open MPI sets. Across hosts it needs TANDEM_COORDINATOR besides.
std::optional<Cluster> cluster_from_open_mpi(const Environment& environment);

/// What srun sets for a step's tasks.
std::optional<Cluster> cluster_from_slurm(const Environment& environment, int port_base = 8888);

/// What `tandem run` sets: TANDEM_RANK, TANDEM_WORLD_SIZE, TANDEM_COORDINATOR, TANDEM_CLUSTER.
std::optional<Cluster> cluster_from_launcher(const Environment& environment);

/// The first of the above that is set, in the order launcher, TF_CONFIG, torchrun, Open MPI, Slurm.
/// Throws InvalidArgument where TF_CONFIG and torchrun's variables contradict each other.
std::optional<Cluster> cluster_from(const Environment& environment);

/// What a resolver says.
Cluster cluster_from_resolver(const cluster_resolver::ClusterResolver& resolver);

Environment process_environment();
std::optional<Cluster> cluster_from_environment();
bool is_configured();

/// "node[01-03,7],gpu1" as names. Throws InvalidArgument, which begins with `field`.
std::vector<std::string> expand_host_list(std::string_view text, const std::string& field);

/// "2(x3),1" as 2, 2, 2, 1. Throws InvalidArgument, which begins with `field`.
std::vector<int> expand_task_counts(std::string_view text, const std::string& field);

}  // namespace tandem::cluster
