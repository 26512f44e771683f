/// The way into a group of processes.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "cluster/cluster_config.h"
#include "op/group.h"

namespace tandem::cluster {

struct JoinOptions {
  /// "auto": shared memory within a host and TCP between hosts; "tcp"; "shm".
  std::string transport = "auto";
  /// Network interfaces of the transport, such as "eth0"; all without.
  std::string interfaces = {};
  /// How long an exchange may make no progress.
  std::chrono::nanoseconds timeout = std::chrono::seconds(60);
  /// How long to wait for the others at the start.
  std::chrono::nanoseconds join_timeout = std::chrono::minutes(5);
};

/// Meets the other processes and returns when all are there. A cluster of one needs no network.
/// Rank 0 runs the coordinator unless a launcher does. Throws DeadlineExceeded, which says for whom
/// it waited; FailedPrecondition if it is not let in or if there should be a secret; NotFound if a
/// plugin is missing.
std::shared_ptr<op::Group> join(const Cluster& cluster, const JoinOptions& options = {});

}  // namespace tandem::cluster
