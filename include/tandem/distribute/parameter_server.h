/// Training with parameter servers: variables lie on servers, and workers read them, compute on
/// batches of their own and send gradients, with or without waiting for each other. How far they
/// may drift apart is one number:
///
///   staleness = 0           all workers share each batch and wait for each other: the result is
///                           that of MirroredStrategy
///   staleness = k           nobody begins a batch who has done more than k batches more than the
///                           slowest
///   staleness = unbounded   nobody waits; gradients are of variables that others have changed
///                           meanwhile
///
///   distribute::ParameterServerStrategy strategy({.staleness = 4, .damping = true});
///   const auto scope = strategy.scope();
///   keras::Sequential model({..});
///   model.compile({..});
///   model.fit(x, y);
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>

#include "tandem/distribute/distributed_dataset.h"
#include "tandem/distribute/strategy.h"

namespace tandem::distribute {

/// The staleness of workers that never wait for each other.
inline constexpr int64_t unbounded = -1;

/// Into how many shards, runs of rows, a variable is cut. Shards are dealt to the servers in turn.
using Partitioner = std::function<int64_t(const Shape& shape, DType dtype)>;

namespace partitioners {

/// So many shards of each variable; InvalidArgument below 1.
TANDEM_API Partitioner fixed_shards(int64_t shards);

/// Cuts a variable into as many shards as each have at least `min_shard_bytes`, but into no more
/// than `max_shards`.
TANDEM_API Partitioner min_size(int64_t min_shard_bytes = int64_t{256} << 10,
                                int64_t max_shards = 1);

/// Cuts a variable into as few shards as each have at most `max_shard_bytes`, but into no more than
/// `max_shards` where that is given.
TANDEM_API Partitioner max_size(int64_t max_shard_bytes, std::optional<int64_t> max_shards = {});

}  // namespace partitioners

struct ParameterServerOptions {
  /// The batches that a worker may be ahead of the slowest one, or `unbounded`.
  int64_t staleness = unbounded;
  /// Divides the learning rate of an update by 1 + its own staleness: by how many updates were made
  /// since its variables were read.
  bool damping = false;
  /// Updates that are staler are dropped; without it none is.
  std::optional<int64_t> drop_older_than{};
  /// How variables are cut; without one into ranges of equal bytes, one for each server.
  Partitioner partitioner{};
  /// The devices that workers compute on, CPUs; without names all logical CPUs. In a cluster a
  /// process computes on the first.
  std::vector<std::string> devices{};
  /// How many threads compute, on the devices in turn; 0: one for each device. In a cluster its
  /// tasks say how many workers and servers there are.
  int workers = 0;
  int servers = 1;
  /// Each worker computes with one thread. With staleness 0 the result has then the bits of a
  /// MirroredStrategy with as many reproducible shards as there are workers.
  bool reproducible = false;
  /// Is called by a worker's thread in each of its steps, with its number, when it has read the
  /// variables: to make workers uneven on purpose.
  std::function<void(int worker)> before_step{};
  /// Who says which processes there are; null: TF_CONFIG, as `tandem run --ps` sets it.
  cluster_resolver::ClusterResolverPtr cluster_resolver{};
  /// Servers change only those rows of a table that a gradient has, as an embedding's has some, and
  /// their slots: momentum and averages of a row rest while no batch has it, and an update costs
  /// what its rows cost. Without it they make the update of the whole table, as one device does.
  bool sparse_update = false;
  /// In a cluster variables of so many bytes or more, and their slots, take no memory of devices.
  /// A server makes and holds its own part of them. Elsewhere they are made when somebody reads
  /// them, in files of the temporary folder, and a worker that reads some rows of one, as of an
  /// embedding, has memory for these alone.
  size_t bytes_in_files = size_t{64} << 20;
  /// How long processes wait for one that is gone, the chief or a server, to come back.
  std::chrono::seconds patience{60};
};

/// Workers and servers as threads of this process, or, where the resolver or TF_CONFIG names tasks
/// `ps`, as processes. `fit` and what a ClusterCoordinator schedules run on the workers; `run` does
/// a step and waits for it. What applies no gradients, as `evaluate` and `predict`, waits for all
/// that was scheduled, and runs on the variables as the servers then have them. With staleness 0
/// the workers are the replicas, which share each batch; else each has batches of its own, and
/// there is one replica.
///
/// In a cluster all tasks run the same program. The chief hands out batches and does not train;
/// callbacks are called there. `fit` and `evaluate` return on all tasks what they do on the chief,
/// and leave all of them with the same variables. Until then workers compute and servers serve:
/// whoever of them dies may be started again at any time.
///
/// Gradients are clipped by norms before they are sent where each worker has batches of its own,
/// and by the servers once they are summed where workers share batches. Where a step needs sums of
/// what all workers compute, as batch normalization with staleness 0 does, they meet within it at
/// the first server; threads then need a device each, else FailedPrecondition, and processes wait
/// for a worker that is gone until it is back.
class TANDEM_API ParameterServerStrategy : public Strategy {
 public:
  /// Throws InvalidArgument for options, NotFound for a device that does not exist, Unimplemented
  /// for one that is no CPU.
  explicit ParameterServerStrategy(const ParameterServerOptions& options = {});

  /// How many updates there were of each staleness so far.
  std::map<int64_t, int64_t> staleness_histogram() const;

  /// Ends the workers' threads, and what this process does with the other tasks; the end of the
  /// last handle does, too. For programs that do not know when that is. What trains throws
  /// FailedPrecondition from then on.
  void close() const;
};

/// Gives work to the workers of a ParameterServerStrategy, as TensorFlow's does.
///
///   ClusterCoordinator coordinator(strategy);
///   for (const auto& batch : strategy.distribute_dataset(batches)) {
///     losses.push_back(coordinator.schedule(step, batch));
///   }
///   coordinator.join();
///   Tensor loss = losses.back().fetch()[0];
///
/// One thread at a time uses it.
class TANDEM_API ClusterCoordinator {
 public:
  /// Throws InvalidArgument for another strategy.
  explicit ClusterCoordinator(Strategy strategy);

  /// A result that will be there.
  class TANDEM_API RemoteValue {
   public:
    /// The results of the step, after waiting for it; the first worker's where workers share
    /// batches. Throws what a worker threw.
    Tensors fetch() const;

   private:
    friend class ClusterCoordinator;
    struct Body;
    explicit RemoteValue(std::shared_ptr<const Body> body) : body_(std::move(body)) {}
    std::shared_ptr<const Body> body_;
  };

  /// Has a worker run `step` with these arguments. Waits while workers have enough to do, and
  /// throws what a worker threw since the last join. A step that applies no gradients, as one that
  /// evaluates, is run at once, by each process itself, when all that was scheduled before is done.
  RemoteValue schedule(const FlatFunction& step, const PerReplicas& arguments);

  /// Waits until all that was scheduled is done. Throws what a worker threw; what was not done by
  /// then is forgotten.
  void join();
  /// Whether all that was scheduled is done.
  bool done() const;

  /// A data set whose elements `schedule` takes: the one that `f` makes, dealt to whichever worker
  /// is free.
  DistributedDataset create_per_worker_dataset(const std::function<data::Dataset()>& f) const;

 private:
  Strategy strategy_;
};

}  // namespace tandem::distribute
