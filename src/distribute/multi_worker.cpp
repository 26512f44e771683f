#include "distribute/multi_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <sstream>

#include "cluster/join.h"
#include "device/task.h"
#include "distribute/agreement_word.h"
#include "distribute/strategy_body.h"
#include "distribute/strategy_devices.h"
#include "runtime/random_calls.h"
#include "tandem/config.h"
#include "tandem/error.h"

namespace tandem::distribute {
namespace {

constexpr const char* kName = "MultiWorkerMirroredStrategy";

/// The replicas of this process, before it has met others.
graph::Replicas own_replicas(const MultiWorkerOptions& options, int workers) {
  if (options.communication.bucket_bytes < 1) {
    throw InvalidArgument(fmt::format("{}: bucket_bytes is {}, 1 or more is accepted", kName,
                                      options.communication.bucket_bytes));
  }
  graph::Replicas replicas{.devices = devices_for(kName, options.devices), .owner = next_owner()};
  replicas.bucket_bytes = static_cast<size_t>(options.communication.bucket_bytes);
  // What GPUs sum goes through the host's memory as a whole, and each of them updates all.
  const bool has_gpu = std::ranges::any_of(replicas.devices, [](const devices::DevicePtr& device) {
    return !device->works_on_threads();
  });
  if (has_gpu) replicas.bucket_bytes = std::numeric_limits<size_t>::max();
  if (!options.reproducible_shards) return replicas;
  const int shards = *options.reproducible_shards;
  if (shards % workers != 0 || shards / workers < replicas.local()) {
    throw InvalidArgument(fmt::format(
        "{}: reproducible_shards is {}; a multiple of the {} workers is accepted, with at least "
        "one for each of a worker's {} devices",
        kName, shards, workers, replicas.local()));
  }
  replicas.devices = dealt(replicas.devices, shards / workers);
  replicas.single_threaded = true;
  return replicas;
}

/// A thread that waits at a barrier for the one that exchanges must not give up first.
std::chrono::nanoseconds exchange_timeout(const CommunicationOptions& options) {
  if (options.timeout.count() > 0) return options.timeout;
  const std::chrono::nanoseconds usual = cluster::JoinOptions{}.timeout;
  const std::chrono::nanoseconds least = std::chrono::milliseconds(1);
  const std::chrono::nanoseconds others = config::wait_deadline() - std::chrono::seconds(1);
  return std::max(least, std::min(usual, others));
}

/// Meets the others: each says how many replicas it has.
void meet(graph::Replicas& replicas, const std::shared_ptr<op::Group>& group) {
  check_not_drawn(kName);
  const char* mode = replicas.single_threaded ? "with" : "without";
  const std::vector<std::string> all =
      group->gather_texts("joining", fmt::format("{} {}", replicas.local(), mode));
  replicas.group = group;
  for (int rank = 0; rank < group->size(); ++rank) {
    const std::string& text = all[static_cast<size_t>(rank)];
    std::istringstream in(text);
    int count = 0;
    std::string its_mode;
    if (!(in >> count >> its_mode) || count < 1) {
      throw DataLoss(fmt::format("{}: {} says '{}'", kName, group->describe(rank), text));
    }
    if (its_mode != mode) {
      throw InvalidArgument(fmt::format("{}: {} is {} reproducible_shards, and {} is {} them",
                                        kName, group->describe(rank), its_mode,
                                        group->describe(group->rank()), mode));
    }
    if (rank < group->rank()) replicas.first += count;
    replicas.in_all_processes += count;
  }
}

/// Processes have as many parts each.
void check_sharding(const Strategy::Body& body, const op::Group& group) {
  const int local = body.local_replicas();
  const bool is_even =
      body.replicas() == local * group.size() && body.span().first == local * group.rank();
  if (is_even) return;
  throw Unimplemented(fmt::format(
      "{}: a Shard with {} replicas in {} processes, {} in this one; the same number in each is "
      "accepted",
      kName, body.replicas(), group.size(), local));
}

std::shared_ptr<const Strategy::Body> body_of(const std::shared_ptr<op::Group>& group,
                                              const MultiWorkerOptions& options) {
  graph::Replicas replicas = own_replicas(options, group->size());
  meet(replicas, group);
  replicas.agreement = std::make_shared<graph::Agreement>(AgreementWord(group->size()).numbers());
  auto body = std::make_shared<const Strategy::Body>(kName, std::move(replicas));
  body->workers()->take_random_state();
  if (options.shard == Shard::nothing) return body;
  check_sharding(*body, *group);
  body->store()->set_sharding(sharding_by(options.shard, body->replicas(), body->span().first));
  return body;
}

std::shared_ptr<const Strategy::Body> body_alone(const MultiWorkerOptions& options) {
  auto body = std::make_shared<const Strategy::Body>(kName, own_replicas(options, 1));
  if (options.shard != Shard::nothing && body->replicas() > 1) {
    body->store()->set_sharding(sharding_by(options.shard, body->replicas()));
  }
  return body;
}

/// What keeps this process from taking part is told to the others, which wait for it.
std::shared_ptr<const Strategy::Body> body_for(const std::shared_ptr<op::Group>& group,
                                               const MultiWorkerOptions& options) {
  if (!group || group->size() == 1) return body_alone(options);
  try {
    return body_of(group, options);
  } catch (...) {
    WorkerGroup(group, nullptr).abort_with_current_error();
    throw;
  }
}

}  // namespace

void check_not_drawn(const char* strategy) {
  const runtime::RandomState random = runtime::random_state();
  if (random.seed || (random.calls == 0 && random.initial_calls == 0)) return;
  throw FailedPrecondition(fmt::format(
      "{}: random numbers were drawn before it was made, by a shuffle or a layer's first weights "
      "for instance, and other processes drew others; make the strategy first, or call "
      "random::set_seed before",
      strategy));
}

std::shared_ptr<op::Group> join_group(const MultiWorkerOptions& options) {
  const std::optional<cluster::Cluster> found =
      options.cluster_resolver ? cluster::cluster_from_resolver(*options.cluster_resolver)
                               : cluster::cluster_from_environment();
  if (!found) return nullptr;
  if (found->size > 1) devices::set_task(found->job, found->task);
  cluster::JoinOptions join;
  join.transport = options.communication.transport;
  join.timeout = exchange_timeout(options.communication);
  return cluster::join(*found, join);
}

MultiWorkerMirroredStrategy multi_worker_strategy(std::shared_ptr<op::Group> group,
                                                  const MultiWorkerOptions& options) {
  return MultiWorkerMirroredStrategy(body_for(group, options));
}

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(const MultiWorkerOptions& options)
    : Strategy(body_for(join_group(options), options)) {}

}  // namespace tandem::distribute
