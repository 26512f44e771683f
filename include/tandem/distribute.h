/// Strategies: how one program runs on several devices. A strategy says where variables live, how a
/// batch is split and how the replicas' values meet; the program itself does not change.
///
///   distribute::MirroredStrategy strategy({"/CPU:0", "/CPU:1"});
///   auto scope = strategy.scope();                  // variables and optimizers made here are
///   mirrored
///   ...
///   PerReplica loss = strategy.run(step, strategy.split(x), strategy.split(y));
///   Tensor mean = strategy.reduce(ReduceOp::sum, loss);
///
/// A strategy may be used by several threads; runs of one function take turns.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tandem/function.h"
#include "tandem/tensor.h"

namespace tandem::distribute {

enum class ReduceOp { sum, mean };

/// A value for each replica: the same for all, a batch split by rows, or one tensor each.
class TANDEM_API PerReplica {
 public:
  PerReplica() = default;
  PerReplica(Tensor same) : whole_(std::move(same)) {}  // NOLINT(google-explicit-constructor)
  explicit PerReplica(Tensors values) : values_(std::make_shared<Tensors>(std::move(values))) {}

  /// `batch` cut by rows into `replicas` parts whose sizes differ by at most one, larger ones
  /// first. No copy.
  static PerReplica split(const Tensor& batch, int replicas);

  /// The value of one replica.
  Tensor value(int replica) const;

  /// "PerReplica:{\n  0: Tensor(...),\n  1: ...}"
  std::string str() const;

  /// For the library's own use.
  explicit PerReplica(std::shared_ptr<const Tensors> values) : values_(std::move(values)) {}
  const Tensor& whole() const { return whole_; }
  int parts() const { return parts_; }
  const std::shared_ptr<const Tensors>& values() const { return values_; }

 private:
  Tensor whole_;
  int parts_ = 0;  // 0: not split.
  std::shared_ptr<const Tensors> values_;
};

/// Which replica a function is called for.
struct ReplicaContext {
  int replica_id = 0;
  int num_replicas_in_sync = 1;
};

/// Synchronous training on the devices of one machine: every device holds the variables (devices
/// that share memory, the same ones), computes its part of each batch, and all apply the summed
/// gradients.
class TANDEM_API MirroredStrategy {
 public:
  /// On the named devices; without names on all GPUs, else on all logical CPUs. Throws NotFound for
  /// a device that does not exist, InvalidArgument for one given twice, Unimplemented for devices
  /// that do not share memory.
  explicit MirroredStrategy(const std::vector<std::string>& devices = {});

  int num_replicas_in_sync() const;
  std::vector<std::string> devices() const;

  class Scope;
  /// While it lives, variables of this thread are created for this strategy.
  [[nodiscard]] Scope scope() const;

  /// The batch cut by rows over the replicas.
  PerReplica split(const Tensor& batch) const;

  /// A value per replica from `f`, called on the replica's own thread.
  PerReplica values_from_function(const std::function<Tensor(const ReplicaContext&)>& f) const;

  /// Runs `f` on every replica with its part of the arguments: `f` is traced once, for all. Throws
  /// what a replica threw, with the replica named, or DeadlineExceeded naming a replica that did
  /// not arrive; variables are then as they were after the last whole step, unless the replica was
  /// stuck within an update.
  template <class Result, class... Args, class... Values>
  auto run(const Function<Result, Args...>& f, const Values&... values) const {
    static_assert(sizeof...(Values) == sizeof...(Args), "run: one value for each argument");
    static_assert((std::is_same_v<std::remove_cvref_t<Args>, Tensor> && ...),
                  "run: the function's arguments are tensors");
    const PerReplica list[] = {PerReplica(values)..., PerReplica()};
    const std::span<const PerReplica> arguments(list, sizeof...(Values));
    if constexpr (std::is_same_v<Result, Tensor>) {
      return run_single(f, arguments);
    } else if constexpr (std::is_void_v<Result>) {
      run_flat(f, arguments);
    } else {
      return run_flat(f, arguments);
    }
  }

  /// The replicas' values joined: elementwise, or with `axis` also along that axis, whose lengths
  /// may differ between replicas. The mean divides by the true number of values that met.
  Tensor reduce(ReduceOp op, const PerReplica& value, std::optional<int> axis = {}) const;

  /// The replicas' values in order.
  Tensors local_results(const PerReplica& value) const;

 private:
  class Body;
  std::vector<PerReplica> run_flat(const FlatFunction& f,
                                   std::span<const PerReplica> arguments) const;
  PerReplica run_single(const FlatFunction& f, std::span<const PerReplica> arguments) const;

  std::shared_ptr<Body> body_;
};

class TANDEM_API MirroredStrategy::Scope {
 public:
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  friend class MirroredStrategy;
  struct Held;
  explicit Scope(std::unique_ptr<Held> held);
  std::unique_ptr<Held> held_;
};

}  // namespace tandem::distribute
