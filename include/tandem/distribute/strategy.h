/// A strategy: see distribute.h.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tandem/cluster.h"
#include "tandem/cross_device_reduction.h"
#include "tandem/data.h"
#include "tandem/distribute/per_replica.h"
#include "tandem/function.h"
#include "tandem/tensor.h"
#include "tandem/variable.h"

namespace tandem::distribute {

enum class ReduceOp { sum, mean };

/// Which replica a value is made for.
struct ValueContext {
  int replica_id_in_sync_group = 0;
  int num_replicas_in_sync = 1;
};

/// Which part of the input a data set is made for.
struct InputContext {
  int num_input_pipelines = 1;
  int input_pipeline_id = 0;
  int num_replicas_in_sync = 1;

  /// Throws InvalidArgument where the replicas do not divide it.
  TANDEM_API int64_t get_per_replica_batch_size(int64_t global_batch_size) const;
};

/// How the elements of a data set are dealt to several processes.
enum class AutoShardPolicy {
  /// As `data`.
  automatic,
  /// Process p of n reads the files p, p + n, .. of Dataset::from_files and makes its rows of each
  /// batch of them. There is a file for each process at least. When they end unevenly, the last
  /// processes get empty batches.
  file,
  /// Each element is a global batch. Every process draws the whole order and makes its own rows of
  /// each batch alone: the batches are those of one device, for any number of processes.
  data,
  /// Each process has elements of its own, which its replicas share: a global batch is made of one
  /// element of each. When they end unevenly, the last processes get empty ones.
  off,
};

struct InputOptions {
  AutoShardPolicy auto_shard_policy = AutoShardPolicy::automatic;
};

class DistributedDataset;

class TANDEM_API Strategy {
 public:
  /// The replicas of all processes; in a mesh, those along the axis of the batch.
  int num_replicas_in_sync() const;
  /// The device of each replica of this process.
  std::vector<std::string> devices() const;
  /// True on the one process that writes files and prints, and where there is only one.
  bool is_chief() const;
  /// "MirroredStrategy"
  const std::string& name() const;

  /// Replicas, devices and threads, where the variables are and how gradients meet, and what the
  /// functions that have run tell in a run and take of memory, for people.
  std::string explain() const;

  class Scope;
  /// While it lives, this is get_strategy() of this thread, and variables, optimizers and models
  /// are created for it. Throws FailedPrecondition inside another strategy's scope.
  [[nodiscard]] Scope scope() const;

  /// The batch cut by rows over the replicas. Where there are several processes each has the whole
  /// batch.
  PerReplica split(const Tensor& batch) const;
  PerReplicas split(const Tensors& batch) const;

  /// A value per replica of this process from `f`, called on the replica's own thread.
  PerReplica values_from_function(const std::function<Tensor(const ValueContext&)>& f) const;

  /// Each element of `batches`, a global batch, split over the replicas. Throws InvalidArgument for
  /// AutoShardPolicy::file where there are several processes and the data set is not made of files,
  /// or of fewer than there are processes, or has no batches.
  DistributedDataset distribute_dataset(const data::Dataset& batches,
                                        const InputOptions& options = {}) const;
  DistributedDataset experimental_distribute_dataset(const data::Dataset& batches,
                                                     const InputOptions& options = {}) const;

  /// Each replica takes the next element of the data set that `f` makes: batches of one replica.
  /// When they end unevenly, the last replicas get empty ones. Where there are several processes,
  /// `f` is called in each, and they tell each other with every step how many rows they have.
  DistributedDataset distribute_datasets_from_function(
      const std::function<data::Dataset(const InputContext&)>& f) const;

  /// Runs `f` on every replica with its part of the arguments: `f` is traced once, for all. Throws
  /// what a replica threw, with the replica and its device named, or DeadlineExceeded naming a
  /// replica that did not arrive; variables are then as they were after the last whole step, unless
  /// the replica was stuck within an update.
  template <class Result, class... Args, class... Values>
  auto run(const Function<Result, Args...>& f, const Values&... values) const {
    static_assert((std::is_same_v<std::remove_cvref_t<Args>, Tensor> && ...),
                  "run: the function's arguments are tensors");
    if constexpr (sizeof...(Values) == 1 && (std::is_same_v<Values, PerReplicas> && ...)) {
      check_count(sizeof...(Args), values.size()...);
      return run_as<Result>(f, std::span<const PerReplica>(values...));
    } else {
      static_assert(sizeof...(Values) == sizeof...(Args), "run: one value for each argument");
      const PerReplica list[] = {PerReplica(values)..., PerReplica()};
      return run_as<Result>(f, std::span<const PerReplica>(list, sizeof...(Values)));
    }
  }

  /// The untyped core.
  PerReplicas run_flat(const FlatFunction& f, std::span<const PerReplica> arguments) const;

  /// The replicas' values joined: elementwise, or with `axis` also along that axis, whose lengths
  /// may differ between replicas. The mean divides by the true number of values that met. Values of
  /// all processes meet, so all must call it; the same holds for gather.
  Tensor reduce(ReduceOp op, const PerReplica& value, std::optional<int> axis = {}) const;

  /// The replicas' values one after another along `axis`.
  Tensor gather(const PerReplica& value, int axis) const;

  /// The values of this process's replicas in order.
  Tensors local_results(const PerReplica& value) const;

  /// Compares a checksum of each variable over the replicas. Throws DataLoss naming the first
  /// replica, and its first variable, that differ from replica 0. Where replicas share memory there
  /// is nothing to compare; several processes compare theirs, and all must call it.
  void verify(const Variables& variables) const;

  bool operator==(const Strategy&) const = default;

  class Body;
  /// For the library's own use.
  explicit Strategy(std::shared_ptr<const Body> body) : body_(std::move(body)) {}
  const Body& body() const { return *body_; }

 private:
  PerReplica run_single(const FlatFunction& f, std::span<const PerReplica> arguments) const;
  static void check_count(size_t wanted, size_t given);
  Tensors of_each_shard(const Tensors& values) const;

  template <class Result>
  auto run_as(const FlatFunction& f, std::span<const PerReplica> arguments) const {
    if constexpr (std::is_same_v<Result, Tensor>) {
      return run_single(f, arguments);
    } else if constexpr (std::is_void_v<Result>) {
      run_flat(f, arguments);
    } else {
      return run_flat(f, arguments);
    }
  }

  std::shared_ptr<const Body> body_;
};

class TANDEM_API Strategy::Scope {
 public:
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  friend class Strategy;
  struct Held;
  explicit Scope(std::unique_ptr<Held> held);
  std::unique_ptr<Held> held_;
};

/// Says what replicas keep in parts, one each, which together are the whole: the stages of ZeRO.
/// Small variables stay whole, since there is nothing to save.
enum class Shard {
  nothing,    ///< Each replica has all, as far as replicas do not share memory.
  state,      ///< The slots of optimizers. Each replica updates its part of the variables.
  gradients,  ///< These, and the sums of gradients, which are made while gradients are computed.
  variables,  ///< These, and the variables, which are joined before they are used and again for the
              ///< backward pass. Inside strategy.run their gradients are those of the replica's
              ///< part.
};

struct MirroredOptions {
  /// If set, each batch is cut into so many shards, each computed by one thread and summed in a
  /// fixed order: the result has the same bits on any number of devices. The shards are the
  /// replicas; devices take turns with them.
  std::optional<int> reproducible_shards{};
  /// How gradients of devices that do not share memory are summed.
  CrossDeviceReduction reduction = CrossDeviceReduction::automatic;
  /// What is kept in parts; each is in the memory of its replica's device, and counts there.
  Shard shard = Shard::nothing;
};

/// Synchronous training on the devices of one machine: every device holds the variables (devices
/// that share memory, the same ones), computes its part of each batch, and all apply the summed
/// gradients.
class TANDEM_API MirroredStrategy : public Strategy {
 public:
  /// Replicas run on the named devices; without names on all GPUs, else on all logical CPUs. Throws
  /// NotFound for a device that does not exist, InvalidArgument for one given twice and for
  /// options.
  explicit MirroredStrategy(const std::vector<std::string>& devices = {},
                            const MirroredOptions& options = {});
};

/// How processes reach each other.
struct CommunicationOptions {
  /// "auto", or what the build has: "tcp", "shm".
  std::string transport = "auto";
  /// Gradients of more bytes than this are summed in pieces of it, while others are computed.
  int64_t bucket_bytes = int64_t{1} << 20;
  /// How long a process waits for another where nothing moves; 0: a minute, or a second less than
  /// config::wait_deadline() where that is shorter.
  std::chrono::milliseconds timeout{0};
};

struct MultiWorkerOptions {
  /// The devices of this process's replicas, as for MirroredStrategy.
  std::vector<std::string> devices{};
  /// As for MirroredStrategy, over all processes: the same bits for any number of them.
  std::optional<int> reproducible_shards{};
  CommunicationOptions communication{};
  /// What the replicas keep in parts. All processes have the same number of them, on CPUs or on
  /// GPUs. Outside of strategy.run what is in parts cannot be read, and all save a checkpoint. On
  /// CPUs `nothing` leaves the slots of large models in parts.
  Shard shard = Shard::nothing;
  /// Who says which processes there are; null: the variables that launchers and schedulers set.
  cluster_resolver::ClusterResolverPtr cluster_resolver{};
};

/// Synchronous training on the devices of several processes, on one machine or on many. Each runs
/// the same program: it makes the strategy before anything draws random numbers, has its rows of
/// each batch, and all apply the summed gradients. Only `run`, `reduce`, `gather`, `verify` and
/// steps through a distributed data set meet other processes, and fit, evaluate, predict and
/// restoring a checkpoint, which are made of them: all processes must call these, in the same
/// order.
class TANDEM_API MultiWorkerMirroredStrategy : public Strategy {
 public:
  /// Meets the processes that the resolver or the environment names; where none does this one is
  /// alone. Throws DeadlineExceeded, which says for whom it waited; see docs/cluster.md.
  explicit MultiWorkerMirroredStrategy(const MultiWorkerOptions& options = {});

  /// For the library's own use.
  explicit MultiWorkerMirroredStrategy(std::shared_ptr<const Body> body)
      : Strategy(std::move(body)) {}
};

struct PipelineOptions {
  /// The parts that a model is cut into, each on a device of its own; 0: one for each device, or
  /// for each named one.
  int stages = 0;
  /// The parts that each batch is cut into. They go through the stages one behind the other.
  int microbatches = 1;
  /// In the place of a number: before a function runs on a batch of so many rows for the first
  /// time, the least number is found with which its memory plan stays within 90 % of each device's
  /// limit, and no less than there are. At first there are as many as stages. Processes take the
  /// same number, that of the one with the least room. Runs take turns. Where replicas are given
  /// values of their own the number stays.
  static constexpr int automatic = -1;
  /// "1f1b": as few micro-batches are under way at once as keep all stages busy. "gpipe": all go
  /// forward, then all go back. "interleaved": 1f1b with several chunks of the model on each stage.
  std::string schedule = "1f1b";
  int chunks = 1;  ///< The model's on each stage; more than one only when interleaved.
  /// Pipelines side by side: each has its part of the batch, so many micro-batches, and devices of
  /// its own.
  int replicas = 1;
  /// The devices of the stages, those of one pipeline side by side; none: all GPUs, else all
  /// logical CPUs. Where there are several processes, those of this process's stages.
  std::vector<std::string> devices{};
  /// The layers of each stage by their names, or with chunks those of each chunk: those whose
  /// variables have the name in their path. Layers that no list has go with what they need. None:
  /// stages are searched for.
  std::vector<std::vector<std::string>> layers{};
  CommunicationOptions communication{};
  /// As for MultiWorkerMirroredStrategy.
  cluster_resolver::ClusterResolverPtr cluster_resolver{};
};

/// One model on several devices: each has some of its layers, and the batch goes through them in
/// micro-batches, so that all work at the same time. Layers are on the device whose scope they are
/// called in; where no scope names one, the model is cut by what its ops cost, by measured times of
/// those that matter, and by the memory limits of the devices, which stages stay within where that
/// is possible. Scopes and lists of layers also say where variables are created; others are the
/// first stage's, or where devices share memory and have limits, of the stage with the most room.
/// Where devices do not share memory, layers are where their weights are; a weight that two stages
/// use is created on one of them.
/// With one stage the micro-batches go one after another through one device, in the memory of one.
///
/// Where the resolver or the environment names several processes, as `tandem run --workers 2` does,
/// the stages of all pipelines are dealt to them in order, as many to each. Every process runs the
/// same program with the same data, computes its stages, and keeps the variables of these and the
/// optimizer's slots of them alone. Losses, metrics and results are everywhere; a variable that
/// another process keeps cannot be read outside of run. Calls that meet other processes are those
/// of MultiWorkerMirroredStrategy, and saving a checkpoint.
///
/// To a step each micro-batch is a replica: `num_replicas_in_sync` counts them, losses are divided
/// by the whole batch, gradients are summed, and the variables change once a batch. Batch
/// normalisation takes the statistics of each micro-batch.
class TANDEM_API PipelineStrategy : public Strategy {
 public:
  /// Throws InvalidArgument for options.
  explicit PipelineStrategy(const PipelineOptions& options);

  /// For the library's own use.
  explicit PipelineStrategy(std::shared_ptr<const Body> body) : Strategy(std::move(body)) {}
};

/// Everything on one device: to run a program written for strategies there.
class TANDEM_API OneDeviceStrategy : public Strategy {
 public:
  explicit OneDeviceStrategy(const std::string& device);
};

/// Variables live once, on the host or on the only GPU; all devices compute, and each step the
/// gradients go there and the variables come from there.
class TANDEM_API CentralStorageStrategy : public Strategy {
 public:
  /// Devices as for MirroredStrategy.
  explicit CentralStorageStrategy(const std::vector<std::string>& devices = {});
};

/// The strategy of the innermost scope or of the run that is being traced; else the default
/// strategy: one replica, placed as without a strategy.
TANDEM_API Strategy get_strategy();
TANDEM_API bool has_strategy();

}  // namespace tandem::distribute
